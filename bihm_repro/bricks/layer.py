"""The layer interface: a conditional distribution of binary units, symbolically.

Samples count as observed (Algorithm 1 does not differentiate through them), so a layer gives the
gradients of its own parameters only, for given weights of the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bihm_repro.bricks.base import Map
from bihm_repro.bricks.plugins import Reference, accepted, resolve

__all__ = ["Layer", "Prior", "Sample", "Score", "build"]


class Score(NamedTuple):
    """Row log-probabilities of given values.

    log_prob : (rows,)
    gradients : a function from row weights w (rows,) to a dict, parameter to the gradient of
        -sum_rows w log_prob; only where ``train`` was asked for
    input_means : the weights of a linear map to (its bias, the mean of its inputs over the rows),
        for centred updates; maps that are left out are not centred
    """

    log_prob: Any
    gradients: Callable[[Any], dict]
    input_means: Mapping[Any, tuple[Any, Any]] = {}


class Sample(NamedTuple):
    """Drawn values (rows, units), and what :class:`Score` has, of these values."""

    values: Any
    log_prob: Any
    gradients: Callable[[Any], dict]
    input_means: Mapping[Any, tuple[Any, Any]] = {}


class Layer(Map, ABC):
    """A distribution of ``units`` binary units given ``inputs`` values.

    What a subclass must give
    -------------------------
    __init__ : takes ``name, inputs, units`` and, by keyword, whichever it declares of ``weights``
        and ``bias`` (initializations), ``dtype`` and the fields of a recipe's ``model`` section;
        that of :class:`bihm_repro.bricks.base.Map` where it needs no more
    _declare : its parameters, W and b unless it says otherwise
    sample, score : see there
    counters : how many consecutive counters a call of ``sample`` uses, 1 unless it says otherwise

    A subclass may give ``prepare``, where sampling and scoring given the same inputs share work.
    """

    counters: int = 1

    @abstractmethod
    def sample(
        self, x: Any, *, repeats: Any = 1, seed: int, counter: Any, train: bool = False
    ) -> Sample:
        """Draw ``repeats`` samples for each row of ``x`` (n, inputs): n * repeats rows.

        The samples of a row are next to each other. Random numbers are a function of ``seed`` and
        ``counter`` (integer or symbolic) alone. ``train`` asks for usable ``gradients``.
        """

    @abstractmethod
    def score(self, values: Any, x: Any, *, train: bool = False) -> Score:
        """Score ``values`` given ``x`` (rows, inputs).

        ``values`` (n, units) has as many rows, or one for each group of K rows of ``x``.
        """

    def prepare(self, x: Any) -> Any:
        """Return what ``sample`` and ``score`` take in place of ``x`` to share computations."""
        return x


class Prior(Map, ABC):
    """A distribution of ``units`` binary units: the top of a generative model.

    A subclass gives the same as one of :class:`Layer`, without inputs.
    """

    counters: int = 1

    def __init__(self, name: str, units: int, **settings: Any) -> None:
        super().__init__(name, 0, units, **settings)

    @abstractmethod
    def sample(self, rows: Any, *, seed: int, counter: Any) -> Sample:
        """Draw ``rows`` independent samples."""

    @abstractmethod
    def score(self, values: Any, *, train: bool = False) -> Score:
        """Score ``values`` (rows, units)."""


def build(reference: Reference | None, *sizes: Any, **settings: Any) -> Any:
    """Construct a brick with those of ``settings`` that its class declares."""
    cls = resolve(reference)
    declared = accepted(cls)
    return cls(*sizes, **{name: value for name, value in settings.items() if name in declared})

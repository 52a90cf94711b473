"""The model interface: what training, estimators and run folders need of a model."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bihm_repro.bricks.base import Brick
from bihm_repro.bricks.initialization import by_name, constant
from bihm_repro.engine.symbolic import T, floatX
from bihm_repro.errors import InputError
from bihm_repro.models.registry import Capability, kind

__all__ = ["Model", "SingleLayer", "TrainingGraph", "checked_sizes", "log_mean_exp", "normalised"]


@dataclass(frozen=True)
class TrainingGraph:
    """One update, symbolically.

    gradients : every parameter to the gradient of the SUM over the mini-batch of the negative
        objective; parameters that are not among them stay as they are
    monitors : name to scalar, a SUM over the mini-batch
    counters : how many consecutive counters the graph uses
    input_means : the weights of a linear map to (its bias, the mean of its inputs), for centring
    state : shared variables besides the parameters that the method keeps from update to update
        (baselines, persistent chains). A checkpoint keeps them under their names, which begin
        with the kind (``rbm.chains``); each phase starts with the values they have now
    updates : (variable, new value) of ``state``, applied together with the step
    """

    gradients: dict
    monitors: dict
    counters: int
    input_means: Mapping[Any, tuple[Any, Any]] = field(default_factory=dict)
    state: Sequence[Any] = ()
    updates: Sequence[tuple[Any, Any]] = ()


class Model(Brick, ABC):
    """A model of binary data that can be trained and measured.

    What a subclass must give
    -------------------------
    kind : the name under which it is registered (``models.registry``), with what it can do
    __init__ : takes ``data_dim, layers`` and, by keyword, those fields of a recipe's ``model``
        section that it declares, and ``dtype``. One named ``layer_settings`` receives the complete
        section as a mapping, to be handed on to layers
    data_dim, layers : the number of observed units, and the latent layer sizes from the data up
    training_graph : one update
    log_weights : importance weights, or ``exact_log_p``, or both

    and, by its capabilities, ``log_z_terms`` (2 log Z) and ``exact_log_p`` (exact log p). Samplers
    are numpy code of their own, named in the registry.
    """

    kind: str
    data_dim: int
    layers: list[int]

    @abstractmethod
    def training_graph(self, x: Any, samples: int, seed: int, counter: Any) -> TrainingGraph:
        """Build one update on the mini-batch ``x`` (batch, data_dim) with K = ``samples``.

        Random numbers are functions of ``seed`` and of the counters from ``counter`` (symbolic)
        on. A subclass may declare further keyword arguments with the names of fields of a recipe's
        ``training`` section, such as ``control_variate``; it then receives their values.
        """

    def log_weights(self, x: Any, samples: Any, seed: int, counter: Any) -> tuple[Any, int]:
        """Return (log r, number of counters used).

        log r (batch, samples) = log p(x, h) - log q(h|x) with h ~ q(h|x).
        """
        raise NotImplementedError(f"a {self.kind} model has no importance weights")

    def log_z_terms(self, rows: Any, inner: Any, seed: int, counter: Any) -> tuple[Any, Any, int]:
        """Return what an estimate of Z^2 averages: (outer, log_r, number of counters used).

        outer (rows,) = (log q(h|x) - log p(x, h)) / 2 with x, h ~ p, and log_r (rows, inner) =
        log p(x, h') - log q(h'|x) with h' ~ q(h|x).
        """
        raise NotImplementedError(f"a {self.kind} model has no 2 log Z")

    def exact_log_p(self, x: Any) -> Any:
        """Return log p(x), (batch,), without sampling."""
        raise NotImplementedError(f"a {self.kind} model has no exact log p")

    def can(self, capability: Capability) -> bool:
        """Whether the model can do ``capability``."""
        return kind(self.kind).can(capability)

    def training_options(self, training: Any) -> dict[str, Any]:
        """Return those fields of a recipe's ``training`` section that ``training_graph`` takes."""
        declared = inspect.signature(self.training_graph).parameters
        return {name: value for name, value in vars(training).items() if name in declared}


class SingleLayer(Model):
    """A model with one layer of hidden units, whose parameters are those of the brick ``p0``."""

    p: Any

    def __init__(
        self,
        data_dim: int,
        layers: Sequence[int],
        *,
        weights: str = "glorot",
        weights_scale: float = 0.1,
        bias: float = 0.0,
        dtype: str = floatX,
    ) -> None:
        self.data_dim, self.layers = checked_sizes(data_dim, layers, single=self.kind)
        self.p = self.brick(
            "p0", weights=by_name(weights, weights_scale), bias=constant(bias), dtype=dtype
        )
        super().__init__(self.kind, [self.p], dtype)

    @abstractmethod
    def brick(self, name: str, **settings: Any) -> Brick:
        """Return the brick of the parameters, with the initial values that ``settings`` have."""


def log_mean_exp(a: Any, axis: int = 1) -> Any:
    """Return the log of the mean of exp(a) along ``axis``, without overflow."""
    top = a.max(axis=axis, keepdims=True)
    return T.log(T.exp(a - top).mean(axis=axis)) + T.max(a, axis=axis)


def normalised(log_weights: Any) -> Any:
    """Return importance weights (batch, samples) that sum to one for each example."""
    weights = T.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def checked_sizes(
    data_dim: int, layers: Sequence[int], *, single: str = ""
) -> tuple[int, list[int]]:
    """Return sizes as integers; refuse those below 1, and models without a latent layer.

    ``single`` names a kind of model that has just one layer.
    """
    if len(layers) == 0:
        raise InputError("model.layers is empty: at least one latent layer is needed")
    for name, size in (("data_dim", data_dim), *(("model.layers", n) for n in layers)):
        if isinstance(size, bool) or int(size) != size or size < 1:
            raise InputError(f"{name} has {size!r}: integers of at least 1 are needed")
    if single and len(layers) != 1:
        raise InputError(
            f"model.layers = {list(layers)}: a {single} model has a single layer, such as [100]"
        )
    return int(data_dim), [int(n) for n in layers]

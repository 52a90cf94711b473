"""Layers in numpy, for the samplers: the same distributions as the symbolic layers.

Importing this module does not import the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.ops.numerics import log_bernoulli, sigmoid, softplus
from bihm_repro.ops.random_stream import RandomStream

__all__ = [
    "ACTIVATIONS",
    "Conditional",
    "NumpyBernoulli",
    "NumpyFactorised",
    "NumpyLayer",
    "array_of",
    "linear",
    "mlp",
]

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "relu": lambda values: np.maximum(values, 0),
    "logistic": sigmoid,
}


class Conditional(ABC):
    """A distribution of units given inputs ``x`` (..., inputs); see :meth:`NumpyLayer.given`."""

    @abstractmethod
    def log_prob(self, values: np.ndarray, units: np.ndarray | None = None) -> np.ndarray:
        """Return the log-probabilities of ``values``, summed over the last axis.

        ``values`` is (..., units), and broadcasts against x, or (..., count, units). With
        ``units``, boolean and broadcasting against ``values``, the sum is over those only: what
        ``sample`` with the same ``units`` draws from.
        """

    @abstractmethod
    def sample(
        self,
        random: RandomStream,
        count: tuple[int, ...] = (),
        units: np.ndarray | None = None,
        values: np.ndarray | None = None,
    ) -> np.ndarray:
        """Draw values of 0 and 1, float32, shape (..., *count, units).

        With ``units`` only those are drawn, and the others are taken from ``values``; both
        broadcast against the result.
        """

    @abstractmethod
    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Return the probability of 1 of each unit, in the shape of ``values``.

        Where units depend on others of their layer, given those of ``values`` that come before.
        """


class NumpyLayer(ABC):
    """A layer with fixed parameters, float32.

    What a subclass must give
    -------------------------
    __init__(name, arrays, settings) : takes its parameters from ``arrays``, where they are called
        ``name`` and a dot and what the symbolic layer calls them; ``settings`` has the fields of
        a recipe's ``model`` section, or is None for their defaults. An InputError names an array
        that is missing or has a wrong shape
    inputs, units : its sizes; a prior has 0 inputs
    factorised : whether the units are independent given the inputs (False by default)
    given : see there
    """

    inputs: int
    units: int
    factorised: bool = False

    @abstractmethod
    def __init__(self, name: str, arrays: Mapping[str, np.ndarray], settings: Any = None) -> None:
        """Take the parameters."""

    @abstractmethod
    def given(self, x: np.ndarray | None = None) -> Conditional:
        """Return the distribution given ``x`` (..., inputs); None for a prior."""


class _Factorised(Conditional):
    """Independent units with ``logits`` (..., units)."""

    def __init__(self, logits: np.ndarray) -> None:
        self._logits = logits

    def log_prob(self, values: np.ndarray, units: np.ndarray | None = None) -> np.ndarray:
        """See :class:`Conditional`."""
        logits = self._aligned(np.ndim(values))
        if units is None:
            return log_bernoulli(values, logits)
        return np.where(units, values * logits - softplus(logits), 0).sum(axis=-1)

    def sample(
        self,
        random: RandomStream,
        count: tuple[int, ...] = (),
        units: np.ndarray | None = None,
        values: np.ndarray | None = None,
    ) -> np.ndarray:
        """See :class:`Conditional`."""
        *rows, last = self._logits.shape
        means = sigmoid(self._logits).reshape(*rows, *(1 for _ in count), last)
        drawn = (random.uniform((*rows, *count, last)) < means).astype(np.float32)
        return drawn if units is None or values is None else np.where(units, drawn, values)

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """See :class:`Conditional`."""
        return np.broadcast_to(sigmoid(self._aligned(np.ndim(values))), np.shape(values))

    def _aligned(self, axes: int) -> np.ndarray:
        extra = axes > self._logits.ndim > 1
        return self._logits[..., None, :] if extra else self._logits


class NumpyBernoulli(NumpyLayer):
    """B(units | logistic(f(x) W + b)), f the identity or deterministic layers."""

    factorised = True

    def __init__(self, name: str, arrays: Mapping[str, np.ndarray], settings: Any = None) -> None:
        """Take ``W``, ``b`` and ``mlp.hidden{i}.W``, ``.b`` from ``arrays``."""
        self._weights, self._bias = linear(name, arrays)
        features, self.units = self._weights.shape
        activation = getattr(settings, "activation", "relu")
        self._features, self.inputs = mlp(name, arrays, activation, features)

    def given(self, x: np.ndarray | None = None) -> Conditional:
        """See :class:`NumpyLayer`."""
        # One large matrix product is far faster than a stack of small ones.
        inputs = np.asarray(x, np.float32)
        flat = inputs.reshape(-1, self.inputs)
        logits = self._features(flat) @ self._weights
        logits += self._bias
        return _Factorised(logits.reshape(*inputs.shape[:-1], self.units))


class NumpyFactorised(NumpyLayer):
    """prod_i B(h_i | logistic(b_i))."""

    inputs, factorised = 0, True

    def __init__(self, name: str, arrays: Mapping[str, np.ndarray], settings: Any = None) -> None:
        """Take ``b`` from ``arrays``."""
        self._bias = array_of(f"{name}.b", arrays, 1)
        self.units = len(self._bias)

    def given(self, x: np.ndarray | None = None) -> Conditional:
        """See :class:`NumpyLayer`."""
        return _Factorised(self._bias)


def array_of(name: str, arrays: Mapping[str, np.ndarray], axes: int) -> np.ndarray:
    """Return the array ``name`` as float32, checked to have ``axes`` axes and finite values."""
    if name not in arrays:
        raise InputError(
            f"model: the array {name} is missing; give the complete model.npz of a run"
        )
    array = np.asarray(arrays[name])
    if array.ndim != axes or not array.size:
        raise InputError(f"model: the array {name} has shape {array.shape}, expected {axes} axes")
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise InputError(f"model: the array {name} has values that are not finite numbers")
    return array.astype(np.float32)


def linear(name: str, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return W (inputs, units) and b (units,) of the linear map ``name``."""
    weights, bias = array_of(f"{name}.W", arrays, 2), array_of(f"{name}.b", arrays, 1)
    if weights.shape[1] != len(bias):
        raise InputError(
            f"model: the arrays {name}.W and {name}.b have shapes {weights.shape} and "
            f"{bias.shape}, which do not agree; give the model.npz of a run"
        )
    return weights, bias


def mlp(
    name: str, arrays: Mapping[str, np.ndarray], activation: str, features: int
) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
    """Return the map by the deterministic layers of ``name`` to ``features``, and its inputs."""
    maps: list[tuple[np.ndarray, np.ndarray]] = []
    while f"{name}.mlp.hidden{len(maps)}.W" in arrays:
        maps.append(linear(f"{name}.mlp.hidden{len(maps)}", arrays))
    if activation not in ACTIVATIONS:
        raise InputError(
            f"model.activation is {activation!r}: allowed are {', '.join(ACTIVATIONS)}"
        )
    inputs = [*(len(weights) for weights, _ in maps), features]
    for i, (weights, _) in enumerate(maps):
        if weights.shape[1] != inputs[i + 1]:
            raise InputError(
                f"model: the array {name}.mlp.hidden{i}.W has shape {weights.shape}, expected "
                f"{(inputs[i], inputs[i + 1])}; give the model.npz of a run"
            )

    def apply(x: np.ndarray) -> np.ndarray:
        for weights, bias in maps:
            x = ACTIVATIONS[activation](x @ weights + bias)
        return x

    return apply, inputs[0]

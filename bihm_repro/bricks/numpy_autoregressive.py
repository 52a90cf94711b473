"""DARN and NADE layers in numpy, for the samplers; see ``bricks.darn`` and ``bricks.nade``.

Importing this module does not import the engine.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bihm_repro.bricks.numpy_layer import Conditional, NumpyLayer, array_of
from bihm_repro.errors import InputError
from bihm_repro.ops.numerics import sigmoid, softplus
from bihm_repro.ops.random_stream import RandomStream

__all__ = ["NumpyDarn", "NumpyNade", "NumpyNadePrior"]

BLOCK = 32
"""Units of a DARN layer between two matrix products, while they are drawn."""


class _Autoregressive(Conditional):
    """Units in order, with ``base`` (..., units): the share of the inputs in the logits."""

    def __init__(self, base: np.ndarray) -> None:
        self._base = base

    @abstractmethod
    def _logits(self, values: np.ndarray, extra: bool) -> np.ndarray:
        """Return the logits of given values; with ``extra``, rows have an axis of samples."""

    @abstractmethod
    def _each_unit(self, values: np.ndarray, rows: tuple[int, ...]) -> Iterator[np.ndarray]:
        """Yield the logits of one unit after the other, (...); then ``values`` holds that unit.

        ``rows`` is the shape, without units, to which the inputs are to be reshaped.
        """

    def _extra(self, values: np.ndarray) -> bool:
        return np.ndim(values) > self._base.ndim > 1

    def log_prob(self, values: np.ndarray, units: np.ndarray | None = None) -> np.ndarray:
        """See :class:`Conditional`."""
        logits = self._logits(values, self._extra(values))
        terms = values * logits - softplus(logits)
        return (terms if units is None else np.where(units, terms, 0)).sum(axis=-1)

    def sample(
        self,
        random: RandomStream,
        count: tuple[int, ...] = (),
        units: np.ndarray | None = None,
        values: np.ndarray | None = None,
    ) -> np.ndarray:
        """See :class:`Conditional`."""
        *rows, last = self._base.shape
        shape = (*rows, *count, last)
        u = random.uniform(shape)
        drawn = np.zeros(shape, np.float32)
        if units is not None and values is not None:
            units, values = np.broadcast_to(units, shape), np.broadcast_to(values, shape)
        for i, logits in enumerate(self._each_unit(drawn, (*rows, *(1 for _ in count)))):
            drawn[..., i] = u[..., i] < sigmoid(logits)
            if units is not None and values is not None:
                drawn[..., i] = np.where(units[..., i], drawn[..., i], values[..., i])
        return drawn

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """See :class:`Conditional`."""
        logits = self._logits(values, self._extra(values))
        return np.broadcast_to(sigmoid(logits), np.shape(values))


class _Darn(_Autoregressive):
    def __init__(self, base: np.ndarray, within: np.ndarray) -> None:
        super().__init__(base)
        self._within = within

    def _logits(self, values: np.ndarray, extra: bool) -> np.ndarray:
        base = self._base[..., None, :] if extra else self._base
        return base + np.asarray(values, np.float32) @ self._within

    def _each_unit(self, values: np.ndarray, rows: tuple[int, ...]) -> Iterator[np.ndarray]:
        units = values.shape[-1]
        base = self._base.reshape(*rows, units)
        for start in range(0, units, BLOCK):
            stop = min(units, start + BLOCK)
            before = values[..., :start] @ self._within[:start, start:stop]
            logits = base[..., start:stop] + before
            for i in range(start, stop):
                yield logits[..., i - start]
                logits += values[..., i, None] * self._within[i, start:stop]


class _Nade(_Autoregressive):
    def __init__(
        self, base: np.ndarray, start: np.ndarray, into: np.ndarray, out: np.ndarray
    ) -> None:
        super().__init__(base)
        self._start, self._into, self._out = start, into, out

    def _logits(self, values: np.ndarray, extra: bool) -> np.ndarray:
        base, start = (
            array[..., None, :] if extra else array for array in (self._base, self._start)
        )
        shape = np.broadcast_shapes(np.shape(values), base.shape)
        hidden = np.broadcast_to(start, (*shape[:-1], start.shape[-1])).copy()
        logits = np.broadcast_to(base, shape).copy()
        for i in range(shape[-1]):
            logits[..., i] += sigmoid(hidden) @ self._out[i]
            hidden += np.asarray(values, np.float32)[..., i, None] * self._into[i]
        return logits

    def _each_unit(self, values: np.ndarray, rows: tuple[int, ...]) -> Iterator[np.ndarray]:
        base, start = (array.reshape(*rows, array.shape[-1]) for array in (self._base, self._start))
        hidden = np.broadcast_to(start, (*values.shape[:-1], start.shape[-1])).copy()
        for i in range(values.shape[-1]):
            yield base[..., i] + sigmoid(hidden) @ self._out[i]
            hidden += values[..., i, None] * self._into[i]


class NumpyDarn(NumpyLayer):
    """v_i given x and v_1 ... v_{i-1}; ``W`` is (inputs + units, units), with 0 inputs a prior."""

    def __init__(self, name: str, arrays: Mapping[str, np.ndarray], settings: Any = None) -> None:
        """Take ``W`` and ``b`` from ``arrays``."""
        weights, self._bias = array_of(f"{name}.W", arrays, 2), array_of(f"{name}.b", arrays, 1)
        self.units = len(self._bias)
        self.inputs = len(weights) - self.units
        if weights.shape[1] != self.units or self.inputs < 0:
            raise InputError(
                f"model: the arrays {name}.W and {name}.b of a darn layer have shapes "
                f"{weights.shape} and {self._bias.shape}, expected (inputs + units, units) and "
                "(units,); give the model.npz of a run"
            )
        self._weights = weights[: self.inputs]
        self._within = np.triu(weights[self.inputs :], 1)

    def given(self, x: np.ndarray | None = None) -> Conditional:
        """See :class:`NumpyLayer`."""
        return _Darn(_affine(x, self._weights, self._bias), self._within)


class NumpyNade(NumpyLayer):
    """v_i given x and v_1 ... v_{i-1}."""

    has_inputs = True

    def __init__(self, name: str, arrays: Mapping[str, np.ndarray], settings: Any = None) -> None:
        """Take ``b``, ``c``, ``R``, ``V`` and, with inputs, ``W`` and ``U`` from ``arrays``."""
        self._bias, self._hidden_bias = (array_of(f"{name}.{v}", arrays, 1) for v in "bc")
        self._into, self._out = (array_of(f"{name}.{v}", arrays, 2) for v in "RV")
        self.inputs, self.units, self.hidden = 0, len(self._bias), len(self._hidden_bias)
        _check(name, "R", self._into, (self.units, self.hidden))
        _check(name, "V", self._out, self._into.shape)
        self._weights = self._hidden_weights = np.zeros((0, 0), np.float32)
        if self.has_inputs:
            self._weights, self._hidden_weights = (array_of(f"{name}.{v}", arrays, 2) for v in "WU")
            self.inputs = len(self._weights)
            _check(name, "W", self._weights, (self.inputs, self.units))
            _check(name, "U", self._hidden_weights, (self.inputs, self.hidden))

    def given(self, x: np.ndarray | None = None) -> Conditional:
        """See :class:`NumpyLayer`."""
        base = _affine(x, self._weights, self._bias)
        start = _affine(x, self._hidden_weights, self._hidden_bias)
        return _Nade(base, start, self._into, self._out)


class NumpyNadePrior(NumpyNade):
    """v_i given v_1 ... v_{i-1}."""

    has_inputs = False


def _affine(x: Any, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    if x is None:
        return bias
    # One large matrix product is far faster than a stack of small ones.
    flat = np.asarray(x, np.float32).reshape(-1, len(weights))
    return (flat @ weights + bias).reshape(*np.shape(x)[:-1], len(bias))


def _check(name: str, array: str, found: np.ndarray, expected: tuple[int, ...]) -> None:
    if found.shape != expected:
        raise InputError(
            f"model: the array {name}.{array} has shape {found.shape}, expected {expected}; "
            "give the model.npz of a run"
        )

"""Deterministic maps: a linear brick and a stack of them with an activation between."""

from __future__ import annotations

from collections.abc import Sequence

from bihm_repro.bricks.base import BIAS, WEIGHT, Brick
from bihm_repro.bricks.initialization import Initialization
from bihm_repro.engine.symbolic import T, floatX
from bihm_repro.errors import InputError

__all__ = ["ACTIVATIONS", "Linear", "MLP"]

ACTIVATIONS = {
    "tanh": T.tanh,
    "relu": lambda x: T.maximum(x, 0),
    "logistic": lambda x: 0.5 * (1 + T.tanh(0.5 * x)),
}


class Linear(Brick):
    """x W + b with W of shape (inputs, units)."""

    def __init__(
        self,
        name: str,
        inputs: int,
        units: int,
        weights: Initialization,
        bias: Initialization,
        dtype: str = floatX,
    ) -> None:
        super().__init__(name, dtype=dtype)
        self.inputs, self.units = inputs, units
        self._weights, self._bias = weights, bias

    def _declare(self):
        return [
            ("W", (self.inputs, self.units), WEIGHT, self._weights),
            ("b", (self.units,), BIAS, self._bias),
        ]

    def apply(self, x):
        """(rows, inputs) to (rows, units)."""
        return T.dot(x, self.W) + self.b


class MLP(Brick):
    """Linear maps, each followed by the activation."""

    def __init__(
        self,
        name: str,
        inputs: int,
        sizes: Sequence[int],
        activation: str,
        weights: Initialization,
        bias: Initialization,
        dtype: str = floatX,
    ) -> None:
        if activation not in ACTIVATIONS:
            raise InputError(
                f"model.activation is {activation!r}: allowed are {', '.join(ACTIVATIONS)}"
            )
        before = [inputs, *sizes[:-1]]
        maps = [
            Linear(f"hidden{i}", a, b, weights, bias, dtype)
            for i, (a, b) in enumerate(zip(before, sizes))
        ]
        super().__init__(name, maps, dtype)
        self._activation = ACTIVATIONS[activation]

    def apply(self, x):
        """(rows, inputs) to (rows, sizes[-1])."""
        for linear in self.children:
            x = self._activation(linear.apply(x))
        return x

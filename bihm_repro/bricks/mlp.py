"""Deterministic maps: a linear brick and a stack of them with an activation between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bihm_repro.bricks.base import Brick, Map
from bihm_repro.engine.symbolic import T
from bihm_repro.errors import InputError
from bihm_repro.ops.activations import tanh

__all__ = ["Linear", "MLP", "features"]

ACTIVATIONS = {
    "tanh": tanh,
    "relu": lambda x: T.maximum(x, 0),
    "logistic": lambda x: 0.5 * (1 + tanh(0.5 * x)),
}


class Linear(Map):
    """x W + b with W of shape (inputs, units)."""

    def apply(self, x):
        """(rows, inputs) to (rows, units)."""
        return T.dot(x, self.W) + self.b


class MLP(Brick):
    """Linear maps, each followed by the activation."""

    def __init__(
        self, name: str, inputs: int, sizes: Sequence[int], activation: str, **settings: Any
    ) -> None:
        if activation not in ACTIVATIONS:
            raise InputError(
                f"model.activation is {activation!r}: allowed are {', '.join(ACTIVATIONS)}"
            )
        maps = [
            Linear(f"hidden{i}", before, size, **settings)
            for i, (before, size) in enumerate(zip([inputs, *sizes], sizes))
        ]
        super().__init__(name, maps, maps[0].dtype)
        self._activation = ACTIVATIONS[activation]

    def apply(self, x):
        """(rows, inputs) to (rows, sizes[-1])."""
        for linear in self.children:
            x = self._activation(linear.apply(x))
        return x


def features(
    inputs: int, hidden: Sequence[int], activation: str, **settings: Any
) -> tuple[list[MLP], int]:
    """Return the deterministic layers inside a conditional, none or an MLP, and their outputs."""
    if not hidden:
        return [], inputs
    return [MLP("mlp", inputs, hidden, activation, **settings)], hidden[-1]

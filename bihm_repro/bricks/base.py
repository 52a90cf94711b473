"""The life of a brick.

1. construct:  ``brick = Linear("map", 784, 300)`` says sizes and how to initialize; no memory yet
2. allocate:   ``brick.allocate()`` makes its parameters, and its children's, as shared variables
3. initialize: ``brick.initialize(seed)`` gives them values, a pure function of the seed
4. apply:      the brick's methods build symbolic graphs from its parameters

A parameter has a role (WEIGHT or BIAS; only weights are regularised) and a hierarchical name such
as ``p0.W``, the name it has in ``model.npz``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bihm_repro.bricks.initialization import Initialization
from bihm_repro.engine.symbolic import floatX, shared
from bihm_repro.errors import InputError
from bihm_repro.ops.random_numbers import seed_for

__all__ = ["BIAS", "WEIGHT", "Brick", "Map"]

WEIGHT = "weight"
BIAS = "bias"


class Brick:
    """A named node in the tree of maps; see the module's docstring for its life.

    Parameters
    ----------
    name : its own name; the root's name is not part of the parameters' names
    children : the bricks it is made of
    dtype : of the parameters; float32 unless precision is what is being tested
    """

    def __init__(self, name: str, children: Iterable[Brick] = (), dtype: str = floatX) -> None:
        self.name = name
        self.children: list[Any] = list(children)
        self.dtype = dtype
        self._own: list[tuple[Any, Initialization]] = []

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a parameter, which ``allocate`` sets under its own name."""

    # -- what a subclass declares

    def _declare(self) -> list[tuple[str, tuple[int, ...], str, Initialization]]:
        """Name, shape, role and initialization of each parameter of its own."""
        return []

    # -- life cycle

    def allocate(self, prefix: str = "") -> Brick:
        """Make the parameters of this brick and of all below it."""
        self._own = []
        for name, shape, role, initialization in self._declare():
            variable = shared(np.zeros(shape, dtype=self.dtype), name=f"{prefix}{name}")
            variable.tag.role = role
            setattr(self, name, variable)
            self._own.append((variable, initialization))
        for child in self.children:
            child.allocate(f"{prefix}{child.name}.")
        return self

    def initialize(self, seed: int) -> Brick:
        """Set every parameter to its initial value, a function of the seed and its name alone."""
        for variable, initialization in self._own:
            shape = variable.get_value(borrow=True).shape
            value = initialization(shape, seed_for(seed, f"initialize {variable.name}"))
            variable.set_value(value.astype(self.dtype))
        for child in self.children:
            child.initialize(seed)
        return self

    # -- parameters

    @property
    def parameters(self) -> list:
        """All parameters as shared variables, its own first, then its children's."""
        own = [variable for variable, _ in self._own]
        return own + [p for child in self.children for p in child.parameters]

    @property
    def weights(self) -> list:
        """The parameters that are regularised."""
        return [p for p in self.parameters if p.tag.role == WEIGHT]

    def get_values(self) -> dict[str, np.ndarray]:
        """A copy of every parameter, by name."""
        return {p.name: np.array(p.get_value(borrow=True)) for p in self.parameters}

    def set_values(self, values: Mapping[str, np.ndarray]) -> None:
        """Take every parameter from ``values``; missing or misshapen arrays are named."""
        for p in self.parameters:
            if p.name not in values:
                raise InputError(
                    f"parameter {p.name} is missing: the model needs "
                    f"{', '.join(v.name for v in self.parameters)}"
                )
            value = np.asarray(values[p.name])
            expected = p.get_value(borrow=True).shape
            if value.shape != expected:
                raise InputError(f"parameter {p.name} has shape {value.shape}, expected {expected}")
            if not np.isfinite(value).all():
                raise InputError(f"parameter {p.name} holds values that are not finite")
        for p in self.parameters:
            p.set_value(np.array(values[p.name], dtype=self.dtype, order="C"))


class Map(Brick):
    """A brick from ``inputs`` to ``units``; it has W (inputs, units) and b (units,) by default.

    Parameters
    ----------
    weights, bias : their initial values
    """

    def __init__(
        self,
        name: str,
        inputs: int,
        units: int,
        *,
        weights: Initialization,
        bias: Initialization,
        dtype: str = floatX,
        children: Iterable[Brick] = (),
    ) -> None:
        super().__init__(name, children, dtype)
        self.inputs, self.units = inputs, units
        self._weights, self._bias = weights, bias

    def _declare(self):
        return [
            ("W", (self.inputs, self.units), WEIGHT, self._weights),
            ("b", (self.units,), BIAS, self._bias),
        ]

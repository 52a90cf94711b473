"""Initial values of parameters, each a pure function of shape and seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from bihm_repro.errors import InputError
from bihm_repro.ops.random_numbers import uniform

__all__ = ["Initialization", "constant", "gaussian", "glorot", "by_name"]

Initialization = Callable[[tuple, int], np.ndarray]
NAMES = ("glorot-over-fan-in", "glorot", "gaussian")


def _uniform(shape: tuple[int, ...], seed: int) -> np.ndarray:
    rows, columns = shape if len(shape) == 2 else (1, shape[0])
    return uniform(seed, 0, rows, columns).astype(np.float64).reshape(shape)


def glorot(shape: tuple[int, int], seed: int) -> np.ndarray:
    """Uniform in +-sqrt(6 / (in + out)) (Glorot and Bengio, 2010)."""
    return (2 * _uniform(shape, seed) - 1) * np.sqrt(6.0 / sum(shape))


def glorot_over_fan_in(shape: tuple[int, int], seed: int) -> np.ndarray:
    """Glorot's range divided by the number of inputs: what the paper's authors used."""
    return glorot(shape, seed) / shape[0]


def gaussian(scale: float) -> Initialization:
    """Independent normal values with standard deviation ``scale``."""
    return lambda shape, seed: scale * ndtri(_uniform(shape, seed))


def constant(value: float) -> Initialization:
    """The same value everywhere."""
    return lambda shape, seed: np.full(shape, value)


def by_name(name: str, scale: float = 0.1) -> Initialization:
    """The initialization that a recipe names."""
    if name not in NAMES:
        raise InputError(f"model.weights is {name!r}: allowed are {', '.join(NAMES)}")
    return {"glorot": glorot, "glorot-over-fan-in": glorot_over_fan_in}.get(name) or gaussian(scale)

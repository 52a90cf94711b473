"""Compiled log weights, the sizes of their blocks, and checks of what estimates are given."""

from __future__ import annotations

import numpy as np

from bihm_repro.engine.symbolic import T, floatX, function
from bihm_repro.errors import InputError, check_count
from bihm_repro.models.base import Model
from bihm_repro.models.registry import Capability

__all__ = ["LogWeights", "block_shape", "check_count", "check_data", "standard_error"]

# Rows of the widest latent layer that a block may hold: 4 MiB, so that a layer's samples are still
# in cache when the next layer reads them.
_BLOCK_FLOATS = 2**20
_MOST_ROWS = 8192


class LogWeights:
    """Compiled log r = log p(x, h) - log q(h|x) of a model: (batch, samples) float64.

    One graph serves every number of samples; JAX, whose shapes are fixed, compiles it for each.
    For models with an exact log p(x), that is the only column.
    """

    def __init__(self, model: Model, seed: int) -> None:
        """Compile for ``model``, whose parameters may change between calls."""
        x, counter, count = T.matrix("x", dtype=floatX), T.lscalar("counter"), T.lscalar("samples")
        if model.can(Capability.EXACT_LOG_P):
            log_r, self.counters = model.exact_log_p(x).dimshuffle(0, "x"), 0
            compiled = function([x], log_r)
            self._run = lambda x, at, samples: compiled(x)
        else:
            log_r, self.counters = model.log_weights(x, count, seed, counter)
            self._run = function([x, counter, count], log_r)

    def __call__(self, x: np.ndarray, samples: int, block: int) -> np.ndarray:
        """Return the weights of block number ``block``, whose random numbers are its own."""
        x = np.asarray(x, dtype=floatX)
        return np.asarray(self._run(x, block * self.counters, samples), dtype=np.float64)


def block_shape(model: Model, samples: int) -> tuple[int, int]:
    """Return (examples, samples) of a block: a function of the model's sizes, so results repeat."""
    rows = int(max(64, min(_MOST_ROWS, _BLOCK_FLOATS // max([1, *model.layers]))))
    per_example = min(samples, 100 if samples <= 1000 else rows)
    return max(1, rows // per_example), per_example


def check_data(x: np.ndarray, dim: int, what: str = "x") -> np.ndarray:
    """Return ``x`` as float32 (examples, dim) with finite values in [0, 1], or an InputError."""
    x = np.asarray(x)
    if x.ndim != 2 or x.shape[1] != dim:
        raise InputError(f"{what} has shape {x.shape}: expected (examples, {dim})")
    if len(x) == 0:
        raise InputError(f"{what} holds no example: at least one is needed")
    x = x.astype(np.float32)
    if np.isnan(x).any():
        raise InputError(
            f"{what} holds NaN in row {int(np.isnan(x).any(axis=1).argmax())}: "
            "expected values in [0, 1]"
        )
    outside = (x < 0) | (x > 1)
    if outside.any():
        raise InputError(
            f"{what} holds {x[outside][0]:g} in row "
            f"{int(outside.any(axis=1).argmax())}: expected values in [0, 1]"
        )
    return x


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of the mean; 0 where there is one value only."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0

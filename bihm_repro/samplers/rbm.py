"""Samples of restricted Boltzmann machines by block Gibbs sampling, in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bihm_repro.bricks.numpy_layer import array_of
from bihm_repro.errors import InputError
from bihm_repro.ops.numerics import sigmoid
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers.base import Sampler

__all__ = ["RbmSampler"]

STEPS = 1000
"""Gibbs steps of each chain. It starts from fair coins, so samples are of p in the limit only."""


class RbmSampler(Sampler):
    """p(x) of a restricted Boltzmann machine: one chain per sample."""

    def __init__(self, values: Mapping[str, np.ndarray], settings: Any = None) -> None:
        """Take the arrays ``p0.W`` (visible, hidden), ``p0.b`` and ``p0.c``."""
        self._w = array_of("p0.W", values, 2)
        self._b, self._c = (array_of(f"p0.{name}", values, 1) for name in "bc")
        if self._w.shape != (len(self._b), len(self._c)):
            raise InputError(
                f"model: the array p0.W has shape {self._w.shape}, its biases say "
                f"({len(self._b)}, {len(self._c)}); give the model.npz of a run"
            )
        self.data_dim, self.sizes = len(self._b), self._w.shape

    def sample(self, n: int, random: RandomStream) -> tuple[np.ndarray, np.ndarray]:
        """See ``Sampler.sample``."""
        means = np.full((n, self.data_dim), 0.5, np.float32)
        for _ in range(STEPS):
            x = (random.uniform(means.shape) < means).astype(np.float32)
            hidden = sigmoid(x @ self._w + self._c)
            h = (random.uniform(hidden.shape) < hidden).astype(np.float32)
            means = sigmoid(h @ self._w.T + self._b)
        return (random.uniform(means.shape) < means).astype(np.float32), means

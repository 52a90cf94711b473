"""Ancestral samples of NADE models, in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bihm_repro.bricks.numpy_autoregressive import NumpyNadePrior
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers.base import Sampler

__all__ = ["NadeSampler"]


class NadeSampler(Sampler):
    """p(x) of a NADE model."""

    def __init__(self, values: Mapping[str, np.ndarray], settings: Any = None) -> None:
        """Take the arrays ``p0.b``, ``p0.c``, ``p0.R`` and ``p0.V``."""
        self._p = NumpyNadePrior("p0", values, settings)
        self.data_dim, self.sizes = self._p.units, (self._p.units, self._p.hidden)

    def sample(self, n: int, random: RandomStream) -> tuple[np.ndarray, np.ndarray]:
        """See ``Sampler.sample``."""
        conditional = self._p.given()
        x = conditional.sample(random, (n,))
        return x, conditional.probabilities(x)

"""The variational bound level by level, on two sets of examples: where a model overfits.

For h ~ q(h|x) the bound E[log p(x, h) - log q(h|x)] of a model with L latent layers is a sum of

    level 0         E[log p(x | h_1)]
    level l < L     E[log p(h_l | h_{l+1}) - log q(h_l | h_{l-1})]
    level L         E[log p(h_L) - log q(h_L | h_{L-1})]

A level whose term is higher on training rows than on others is where parameters fit the training
rows alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers.helmholtz import HelmholtzSampler

__all__ = ["LevelGap", "Mean", "level_gaps", "level_terms"]

ROWS = 1000
"""Examples that are computed at a time."""


class Mean(NamedTuple):
    """A mean over examples and its standard error."""

    value: float
    standard_error: float


class LevelGap(NamedTuple):
    """A level's term on two sets of examples, and the first minus the second."""

    first: Mean
    second: Mean

    @property
    def gap(self) -> Mean:
        """The difference, with the standard error of independent examples."""
        errors = self.first.standard_error, self.second.standard_error
        return Mean(self.first.value - self.second.value, float(np.hypot(*errors)))


def level_terms(
    model: HelmholtzSampler, x: np.ndarray, samples: int = 10, seed: int = 0
) -> list[Mean]:
    """Return the terms of levels 0 to L, then their sum, on ``x`` of shape (n, data_dim).

    Each example's terms are means over ``samples`` draws of h ~ q(h|x).
    """
    random = RandomStream(seed, "level terms")
    blocks = []
    for start in range(0, len(x), ROWS):
        rows = np.asarray(x[start : start + ROWS], np.float32)
        total = np.zeros((model.depth + 1, len(rows)))
        for _ in range(samples):
            layers = model.sample_q(rows, random)
            above = [*layers[1:], None]
            for level, values in enumerate(layers):
                total[level] += model.p_given(level, above[level]).log_prob(values)
                if level:
                    total[level] -= model.q_given(level, layers[level - 1]).log_prob(values)
        blocks.append(total / samples)
    terms = np.concatenate(blocks, axis=1)
    return [
        Mean(float(row.mean()), float(row.std(ddof=1) / np.sqrt(row.size)))
        for row in (*terms, terms.sum(axis=0))
    ]


def level_gaps(
    model: HelmholtzSampler, first: np.ndarray, second: np.ndarray, samples: int = 10, seed: int = 0
) -> list[LevelGap]:
    """Return the terms of levels 0 to L and their sum on two sets of examples."""
    both = (level_terms(model, x, samples, seed) for x in (first, second))
    return [LevelGap(*pair) for pair in zip(*both)]

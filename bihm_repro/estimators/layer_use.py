"""How much of a deep model is in use: units that say something about x, layer by layer.

Training can leave units, and whole upper layers, without a task: their probabilities under
q(h_l | h_{l-1}) then no longer depend on x. For h ~ q(h|x) over examples x, a unit counts as in use
where its probability varies with a standard deviation of more than 0.1. What layer l tells p about
the layer below is

    E[log p(h_{l-1} | h_l)] - sum_j E[log B(h_{l-1,j} | its mean)]

in nats: how much better the layer below is predicted than by its units' means alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bihm_repro.samplers.directed import DirectedPair, bernoulli, log_bernoulli, sigmoid

__all__ = ["LayerUse", "layer_use"]

_VARIES = 0.1


class LayerUse(NamedTuple):
    """A latent layer's size, its units in use, and what it tells about the layer below (nats)."""

    units: int
    in_use: int
    nats_below: float


def layer_use(pair: DirectedPair, x: np.ndarray, seed: int = 0) -> list[LayerUse]:
    """The use of each latent layer, from the data up, over the examples ``x`` (n, data_dim)."""
    generator = np.random.default_rng(seed)
    below, found = np.asarray(x, np.float32), []
    for level in range(1, pair.depth + 1):
        mean = sigmoid(pair.q_logits(level, below))
        layer = bernoulli(mean, generator)
        told = log_bernoulli(below, pair.p_logits(level - 1, layer)).mean(dtype=np.float64)
        in_use = int((mean.std(axis=0, dtype=np.float64) > _VARIES).sum())
        found.append(LayerUse(pair.sizes[level], in_use, float(told + _entropy(below))))
        below = layer
    return found


def _entropy(values: np.ndarray) -> float:
    """Sum of the units' own entropies, in nats."""
    mean = values.mean(axis=0, dtype=np.float64)
    inside = mean[(mean > 0) & (mean < 1)]
    return float(-(inside * np.log(inside) + (1 - inside) * np.log1p(-inside)).sum())

"""The importance-weighted autoencoder (Burda et al., 2015).

    log p(x) >= E_{h_k ~ q(h|x)} log 1/K sum_k r_k,    r_k = p(x, h_k) / q(h_k|x)

with one or more layers of Gaussian latents. The gradient is sum_k w_k d log r_k with
w_k = r_k / sum r, taken through the reparameterised draws and with the weights held constant.
At K = 1 it is the VAE's bound with a sampled divergence.
"""

from __future__ import annotations

from typing import Any

from bihm_repro.engine.symbolic import T
from bihm_repro.models.autoencoder import GaussianAutoencoder
from bihm_repro.models.base import TrainingGraph, log_mean_exp, normalised

__all__ = ["ImportanceWeightedAutoencoder"]


class ImportanceWeightedAutoencoder(GaussianAutoencoder):
    """p and q trained towards the bound of K importance samples."""

    kind = "iwae"

    def training_graph(self, x: Any, samples: int, seed: int, counter: Any) -> TrainingGraph:
        """Build one update on ``x`` (batch, data_dim) with K = ``samples``."""
        passed = self.both_ways(x, samples, seed, counter, train=True)
        weight = normalised(passed.log_r).astype(self.dtype).flatten()
        gradients = self.gradients(passed.decoded, weight, -T.dot(weight, passed.log_latents))
        return TrainingGraph(gradients, {"log_p": log_mean_exp(passed.log_r).sum()}, len(self.q))

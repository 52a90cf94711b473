"""The variational autoencoder (Kingma and Welling, 2014; Rezende et al., 2014).

    bound(x) = E_{h ~ q(h|x)} log p(x|h) - KL(q(h|x) || p(h))

with one layer of Gaussian latents, reparameterised draws, and the divergence in closed form.
The paper measures it with importance samples, as all models: at K = 1 that estimate is the bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bihm_repro.bricks.gaussian import divergence_from_prior
from bihm_repro.engine.symbolic import T
from bihm_repro.models.autoencoder import GaussianAutoencoder
from bihm_repro.models.base import TrainingGraph, log_mean_exp

__all__ = ["VariationalAutoencoder"]


class VariationalAutoencoder(GaussianAutoencoder):
    """p and q trained towards the bound with an analytic divergence."""

    kind = "vae"
    has_one_layer = True

    def training_graph(self, x: Any, samples: int, seed: int, counter: Any) -> TrainingGraph:
        """Build one update on ``x`` (batch, data_dim); the bound is averaged over the samples."""
        passed = self.both_ways(x, samples, seed, counter, train=True)
        divergence = divergence_from_prior(passed.samples[0].moments).sum()
        each = np.full((1, samples), 1.0 / samples, dtype=self.dtype)
        weight = (T.ones_like(x[:, 0]).dimshuffle(0, "x") * each).flatten()
        gradients = self.gradients(passed.decoded, weight, divergence)
        bound = T.dot(weight, passed.decoded.log_prob) - divergence
        monitors = {"log_p": log_mean_exp(passed.log_r).sum(), "bound": bound}
        return TrainingGraph(gradients, monitors, len(self.q))

"""The variational autoencoder (Kingma and Welling, 2014; Rezende et al., 2014).

    bound(x) = E_{h ~ q(h|x)} log p(x|h) - KL(q(h|x) || p(h))

with one layer of Gaussian latents, reparameterised draws, and the divergence in closed form.
The paper measures it with importance samples, as all models: at K = 1 that estimate is the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bihm_repro.bricks.gaussian import divergence_from_prior
from bihm_repro.engine.symbolic import T
from bihm_repro.errors import InputError
from bihm_repro.models.autoencoder import GaussianAutoencoder
from bihm_repro.models.helmholtz import TrainingGraph, log_mean_exp

__all__ = ["VariationalAutoencoder"]


class VariationalAutoencoder(GaussianAutoencoder):
    """p and q trained towards the bound with an analytic divergence."""

    kind = "vae"

    def __init__(self, data_dim: int, layers: Sequence[int], **settings: Any) -> None:
        if len(layers) != 1:
            raise InputError(f"model.layers = {list(layers)}: a vae has one layer of latents, "
                             "such as [100]; an iwae may have more")
        super().__init__(data_dim, layers, **settings)

    def training_graph(self, x, samples: int, seed: int, draw,
                       control_variate: bool = True) -> TrainingGraph:
        """One update on ``x`` (batch, data_dim); the bound's expectation is a mean over samples.

        ``control_variate`` changes nothing: reparameterised gradients have no score to reduce.
        """
        passed = self.both_ways(x, samples, seed, draw, train=True)
        divergence = divergence_from_prior(passed.draws[0].moments).sum()
        each = np.full((1, samples), 1.0 / samples, dtype=self.dtype)
        weight = (T.ones_like(x[:, 0]).dimshuffle(0, "x") * each).flatten()
        gradients = self.gradients(passed.decoded, weight, divergence)
        bound = T.dot(weight, passed.decoded.log_prob) - divergence
        monitors = {"log_p": log_mean_exp(passed.log_r).sum(), "bound": bound}
        return TrainingGraph(gradients, monitors, len(self.q))

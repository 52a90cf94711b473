"""The restricted Boltzmann machine, trained by persistent contrastive divergence (Tieleman, 2008).

    p(x) = exp(-F(x)) / Z,   -F(x) = b x + sum_j log(1 + exp(c_j + x W_j))

The gradient of log p(x) is d(-F(x)) less its expectation under p, estimated by Gibbs chains that
continue over updates: the state ``rbm.chains``. K, the samples of a phase, is the number of
Gibbs steps of an update. log Z is estimated by annealed importance sampling, see ``ops.annealing``;
as log Z comes out too low on average, log p(x) comes out too high, the less the more steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bihm_repro.bricks.base import BIAS, Brick, Map
from bihm_repro.bricks.bernoulli import softplus
from bihm_repro.engine.symbolic import T, shared
from bihm_repro.models.base import SingleLayer, TrainingGraph, log_mean_exp
from bihm_repro.ops.affine import affine
from bihm_repro.ops.annealing import annealed_log_weights
from bihm_repro.ops.bernoulli import sample_layer
from bihm_repro.ops.gradients import column_means, weighted_gradient
from bihm_repro.ops.random_numbers import seed_for, uniform

__all__ = ["RestrictedBoltzmannMachine"]

CHAINS = 100
"""Persistent chains of training, and chains of annealed importance sampling."""
STEPS = 1000
"""Inverse temperatures of annealed importance sampling, while log p(x) is estimated."""


class _Parameters(Map):
    """W (visible, hidden), b (visible,), c (hidden,)."""

    def _declare(self):
        weights, hidden = super()._declare()
        return [weights, ("b", (self.inputs,), BIAS, self._bias), ("c", *hidden[1:])]


class RestrictedBoltzmannMachine(SingleLayer):
    """One layer of hidden units without connections within the layers."""

    kind = "rbm"

    def brick(self, name: str, **settings: Any) -> Brick:
        """See ``SingleLayer.brick``."""
        return _Parameters(name, self.data_dim, self.layers[0], **settings)

    def log_unnormalised(self, x: Any) -> Any:
        """Return -F(x), (batch,)."""
        hidden = affine(x, self.p.W, self.p.c)
        return (x * self.p.b).sum(axis=1) + softplus(hidden).sum(axis=1)

    def log_z_weights(self, chains: Any, steps: Any, seed: int, counter: Any) -> tuple[Any, Any]:
        """Return (log of weights whose mean estimates Z, (chains,); number of counters used)."""
        p = self.p
        log_weights, used = annealed_log_weights(
            p.W, p.b, p.c, chains=chains, steps=steps, seed=seed, counter=counter
        )
        first = softplus(p.b).sum() + np.asarray(self.layers[0] * np.log(2), self.dtype)
        return log_weights + first, used

    def log_weights(self, x: Any, samples: Any, seed: int, counter: Any) -> tuple[Any, int]:
        """Return (-F(x) less an estimate of log Z, in each column; number of counters used)."""
        log_z, used = self.log_z_weights(CHAINS, STEPS, seed, counter)
        log_p = self.log_unnormalised(x) - log_mean_exp(log_z, axis=0)
        return log_p.dimshuffle(0, "x") + T.zeros((1, samples), dtype=self.dtype), used

    def training_graph(self, x: Any, samples: int, seed: int, counter: Any) -> TrainingGraph:
        """Build one update on the mini-batch ``x`` (batch, data_dim) with K Gibbs steps."""
        p = self.p
        start = uniform(seed_for(seed, "rbm.chains"), 0, CHAINS, self.data_dim) < 0.5
        chains = shared(start.astype(self.dtype), name="rbm.chains")
        v: Any = chains
        for step in range(samples):
            at = counter + 2 * step
            h = sample_layer(v, p.W, p.c, seed=seed, counter=at).sample
            v = sample_layer(h, p.W.T, p.b, seed=seed, counter=at + 1).sample
        share = T.ones_like(v[:, 0]) * (T.cast(x.shape[0], self.dtype) / CHAINS)
        data = self._gradients(x, -T.ones_like(x[:, 0]))
        model = self._gradients(v, share.astype(self.dtype))
        gradients = {parameter: data[parameter] + model[parameter] for parameter in data}
        # Not log p: how much more the data weigh than the chains, zero where they are alike.
        contrast = self.log_unnormalised(x).sum() - (share * self.log_unnormalised(v)).sum()
        return TrainingGraph(
            gradients,
            {"contrast": contrast},
            2 * samples,
            {p.W: (p.c, column_means(x))},
            state=[chains],
            updates=[(chains, v)],
        )

    def _gradients(self, v: Any, weight: Any) -> dict:
        """Return the gradients of sum weight (-F(v))."""
        p = self.p
        mean = 1 / (1 + T.exp(-affine(v, p.W, p.c)))
        weights, hidden_bias = weighted_gradient(v, mean, weight)
        visible_bias = (weight.dimshuffle(0, "x") * v).sum(axis=0)
        return {p.W: weights, p.b: visible_bias, p.c: hidden_bias}

"""VIMCO (Mnih and Rezende, 2016): the K-sample bound with a baseline from the other samples.

With h_k ~ q(h|x), r_k = p(x, h_k) / q(h_k|x) and w_k = r_k / sum r, the bound is the expectation
of L = log (1/K) sum_k r_k, and its gradient is estimated by

    p    sum_k w_k d log p(x, h_k)
    q    sum_k (L - L_k - w_k) d log q(h_k|x)

where L_k is L with r_k replaced by the geometric mean of the others: a baseline that does not
depend on h_k.
"""

from __future__ import annotations

from typing import Any

from bihm_repro.engine.symbolic import T
from bihm_repro.errors import InputError
from bihm_repro.models.base import TrainingGraph, log_mean_exp, normalised
from bihm_repro.models.helmholtz import HelmholtzMachine

__all__ = ["Vimco"]


class Vimco(HelmholtzMachine):
    """p and q trained towards the K-sample bound."""

    kind = "vimco"

    def training_graph(self, x: Any, samples: int, seed: int, counter: Any) -> TrainingGraph:
        """Build one update on the mini-batch ``x`` (batch, data_dim) with K = ``samples``."""
        if samples < 2:
            raise InputError(
                f"phases: samples = {samples}: vimco compares samples of the same example, so it "
                "needs 2 or more"
            )
        inference, joint, log_r = self.both_ways(x, samples, seed, counter, train=True)
        weights = normalised(log_r)
        signal = log_mean_exp(log_r).dimshuffle(0, "x") - _without_each(log_r, samples) - weights
        gradients = joint.gradients(weights.flatten())
        gradients.update(inference.gradients(signal.astype(self.dtype).flatten()))
        monitors = {"log_p": log_mean_exp(log_r).sum()}
        means = {**joint.input_means, **inference.input_means}
        return TrainingGraph(gradients, monitors, self.inference_counters, means)


def _without_each(log_r: Any, samples: int) -> Any:
    """Return L_k, (batch, samples)."""
    others = (log_r.sum(axis=1, keepdims=True) - log_r) / (samples - 1)
    # The row of each k: log r with its own element exchanged, (batch, k, samples).
    own = T.eye(samples, dtype=log_r.dtype)
    exchanged = log_r.dimshuffle(0, "x", 1) + own * (others - log_r).dimshuffle(0, 1, "x")
    return log_mean_exp(exchanged, axis=2)

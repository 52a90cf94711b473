"""Reweighted wake-sleep (Bornschein and Bengio, 2015): the first method the paper compares with.

With h_k ~ q(h|x), r_k = p(x, h_k) / q(h_k|x) and w_k = r_k / sum r (the paper's BiHM has sqrt r
instead), a mini-batch gives

    p             sum_k w_k d log p(x, h_k)         towards log p(x)
    q, wake       sum_k w_k d log q(h_k|x)          towards p(h|x) for x from the data
    q, sleep      d log q(h|x) with x, h ~ p        towards p(h|x) for x from the model

and q follows the mean of its two, with as many samples of p as the mini-batch has examples. The
published method takes the wake weights as they are. With ``control_variate`` they become
w_k - 1/K: q's score has expectation zero under q, so the expected gradient stays what it was at
any K. The recipes in ``run_exps/rws`` switch it off, to compare with the method as published.
"""

from __future__ import annotations

from typing import Any

from bihm_repro.models.base import TrainingGraph, log_mean_exp, normalised
from bihm_repro.models.helmholtz import HelmholtzMachine

__all__ = ["ReweightedWakeSleep"]


class ReweightedWakeSleep(HelmholtzMachine):
    """p trained towards log p(x), q towards p's posterior."""

    kind = "rws"

    def training_graph(
        self, x: Any, samples: int, seed: int, counter: Any, *, control_variate: bool = True
    ) -> TrainingGraph:
        """Build one update on the mini-batch ``x`` (batch, data_dim) with K = ``samples``."""
        inference, joint, log_r = self.both_ways(x, samples, seed, counter, train=True)
        weights = normalised(log_r)
        q_weights = weights - 1.0 / samples if control_variate else weights
        gradients = joint.gradients(weights.flatten())
        # Half of each phase, through the row weights: no pass over the gradients for the mean.
        wake = inference.gradients((q_weights / 2).astype(self.dtype).flatten())
        sleep = self.sleep_gradients(x.shape[0], 0.5, seed, counter + self.inference_counters)
        gradients.update({parameter: wake[parameter] + sleep[parameter] for parameter in wake})
        monitors = {"log_p": log_mean_exp(log_r).sum()}
        counters = self.inference_counters + self.generation_counters
        means = {**joint.input_means, **inference.input_means}
        return TrainingGraph(gradients, monitors, counters, means)

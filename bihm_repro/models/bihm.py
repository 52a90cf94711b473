"""The bidirectional Helmholtz machine: p*(x, h) = sqrt(p(x, h) q(x, h)) / Z.

Training follows Algorithm 1. With h_k ~ q(h|x) and omega_k = sqrt(p(x, h_k) / q(h_k|x)), the
gradient of the bound log p~*(x) is estimated by sum_k w_k d/dtheta log p(x, h_k) q(h_k|x), where
w_k = omega_k / sum omega. The expectation of q's score under q is zero, so for q the weights
w_k - 1/K have the same expectation in the limit and far less variance: the control variate.

2 log Z rests on Z^2 = E_{x,h ~ p} sqrt(q(h|x) / p(x,h)) E_{h' ~ q} sqrt(p(x,h') / q(h'|x)).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bihm_repro.models.base import TrainingGraph, log_mean_exp, normalised
from bihm_repro.models.helmholtz import HelmholtzMachine

__all__ = ["BidirectionalHelmholtzMachine"]


class BidirectionalHelmholtzMachine(HelmholtzMachine):
    """p and q trained towards their geometric mean."""

    kind = "bihm"

    def training_graph(
        self,
        x: Any,
        samples: int,
        seed: int,
        counter: Any,
        *,
        control_variate: bool = True,
        sleep: float = 0.0,
        above: int = 0,
    ) -> TrainingGraph:
        """Build Algorithm 1 on the mini-batch ``x`` (batch, data_dim) with K = ``samples``.

        With ``sleep``, q follows its gradient plus ``sleep`` times that of a sleep phase, with as
        many samples of p as the mini-batch has examples. With ``above`` = l, the layers above h_l
        are trained as a model of h_l ~ q(h_l|x), and the others stay as they are.
        """
        if above:
            h, log_r, used = self.sample_below(above, x, seed, counter)
            graph = self.part_above(above).training_graph(
                h, samples, seed, counter + used, control_variate=control_variate, sleep=sleep
            )
            monitors = {name: value + log_r.sum() for name, value in graph.monitors.items()}
            return replace(graph, monitors=monitors, counters=used + graph.counters)
        inference, joint, log_r = self.both_ways(x, samples, seed, counter, train=True)
        weights = normalised(log_r / 2)
        q_weights = weights - 1.0 / samples if control_variate else weights
        gradients = joint.gradients(weights.flatten())
        wake = inference.gradients(q_weights.astype(self.dtype).flatten())
        counters = self.inference_counters
        if sleep:
            asleep = self.sleep_gradients(x.shape[0], sleep, seed, counter + counters)
            wake = {parameter: wake[parameter] + asleep[parameter] for parameter in wake}
            counters += self.generation_counters
        gradients.update(wake)
        monitors = {
            "log_p": log_mean_exp(log_r).sum(),
            "log_p_tilde_star": 2 * log_mean_exp(log_r / 2).sum(),
        }
        means = {**joint.input_means, **inference.input_means}
        return TrainingGraph(gradients, monitors, counters, means)

    def log_z_terms(self, rows: Any, inner: Any, seed: int, counter: Any) -> tuple[Any, Any, int]:
        """See ``Model.log_z_terms``."""
        x, layers, log_p = self.generate(rows, seed, counter)
        inputs, used = self.q[0].prepare(x), self.generation_counters
        log_q = self.inference_score(inputs, layers).log_q
        inference = self.infer(inputs, inner, seed, counter + used)
        log_r = self.joint(x, inference.layers).log_p - inference.log_q
        return (
            (log_q - log_p) / 2,
            log_r.reshape((x.shape[0], inner)),
            used + self.inference_counters,
        )

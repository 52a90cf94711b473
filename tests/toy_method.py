"""A plugin with a training method: ``reinforce``, the score function with a running baseline.

The bound is raised with weights 1/K for p and (log r - baseline) / K for q. The baseline is a
running mean of log r: state that belongs to the method, not to the model.
"""

from __future__ import annotations

import numpy as np

from bihm_repro.engine.symbolic import T, shared
from bihm_repro.models.base import TrainingGraph, log_mean_exp
from bihm_repro.models.helmholtz import HelmholtzMachine
from bihm_repro.models.registry import Capability, register

BASELINE = "reinforce.baseline"


class Reinforce(HelmholtzMachine):
    """p and q trained towards the bound."""

    kind = "reinforce"

    def training_graph(self, x, samples, seed, counter):
        inference = self.infer(x, samples, seed, counter, train=True)
        joint = self.joint(x, inference.layers, train=True)
        log_r = joint.log_p - inference.log_q
        baseline = shared(np.float32(-10.0), name=BASELINE)
        each = T.ones_like(log_r) / samples
        gradients = joint.gradients(each.astype(self.dtype))
        surprise = (log_r - baseline) / samples
        gradients.update(inference.gradients(surprise.astype(self.dtype)))
        new = T.cast(0.9 * baseline + 0.1 * log_r.mean(), "float32")
        log_p = log_mean_exp(log_r.reshape((x.shape[0], samples))).sum()
        return TrainingGraph(
            gradients,
            {"log_p": log_p},
            self.inference_counters,
            {**joint.input_means, **inference.input_means},
            state=[baseline],
            updates=[(baseline, new)],
        )


register(
    "reinforce",
    Reinforce,
    title="REINFORCE",
    sampler="bihm_repro.samplers.helmholtz:HelmholtzSampler",
    capabilities={Capability.SAMPLES, Capability.ACTIVE_UNITS},
    settings=("p_layer", "q_layer", "prior"),
)

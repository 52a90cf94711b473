"""log Z of an undirected model by annealed importance sampling, with its standard error."""

from __future__ import annotations

from typing import Any

import numpy as np

from bihm_repro.engine.symbolic import T, function
from bihm_repro.estimators.partition_function import LogZ2
from bihm_repro.estimators.streaming import check_count
from bihm_repro.models.registry import Capability, require
from bihm_repro.ops.numerics import log_mean_exp
from bihm_repro.ops.random_numbers import seed_for

__all__ = ["estimate_log_z"]


class LogZ(LogZ2):
    """An estimate of log Z from ``samples`` chains with ``inner`` steps each."""


def estimate_log_z(model: Any, chains: int = 100, steps: int = 10_000, *, seed: int = 0) -> LogZ:
    """Estimate log Z; the standard error is that of the mean weight divided by it."""
    require(model.kind, Capability.LOG_Z)
    chains, steps = check_count(chains, "chains", minimum=2), check_count(steps, "steps")
    count, length = T.lscalar("chains"), T.lscalar("steps")
    log_weights, _ = model.log_z_weights(count, length, seed_for(seed, "log Z"), 0)
    terms = np.asarray(function([count, length], log_weights)(chains, steps), np.float64)
    weights = np.exp(terms - terms.max())
    error = weights.std(ddof=1) / np.sqrt(chains) / weights.mean()
    return LogZ(float(log_mean_exp(terms)), float(error), chains, steps)

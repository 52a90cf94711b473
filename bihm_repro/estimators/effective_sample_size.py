"""Effective sample size of q(h|x) as a proposal, in percent of K, averaged over examples.

ess = (sum_k w_k)^2 / sum_k w_k^2, with weights sqrt(r) for p*(h|x) and r for p(h|x), where
r = p(x, h) / q(h|x).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bihm_repro.estimators.streaming import (
    LogSumExp,
    LogWeights,
    block_shape,
    blocks,
    check_count,
    check_data,
    standard_error,
)
from bihm_repro.models.base import Model
from bihm_repro.ops.random_numbers import seed_for
from bihm_repro.progress import progress

__all__ = ["EffectiveSampleSize", "estimate_effective_sample_size"]


@dataclass(frozen=True)
class EffectiveSampleSize:
    """Per-example effective sample sizes in percent of ``samples``, (examples,) each."""

    samples: int
    p_star: np.ndarray
    p: np.ndarray

    def summary(self) -> dict:
        """Return means and standard errors over the examples."""
        metrics = {"p_star": self.p_star, "p": self.p}
        return {
            "samples": self.samples,
            "examples": len(self.p),
            **{
                name: {"value": float(v.mean()), "standard_error": standard_error(v)}
                for name, v in metrics.items()
            },
        }


def estimate_effective_sample_size(
    model: Model,
    x: np.ndarray,
    samples: int = 10_000,
    *,
    seed: int = 0,
    log_weights: LogWeights | None = None,
) -> EffectiveSampleSize:
    """Estimate from ``samples`` samples for each row of ``x`` (examples, data_dim)."""
    x = check_data(x, model.data_dim)
    samples = check_count(samples, "ess_samples")
    weigh = log_weights or LogWeights(model, seed_for(seed, "effective sample size"))
    examples, per_block = block_shape(model, samples)
    powers = (0.5, 1.0, 2.0)
    sums = np.empty((3, len(x)))
    bar = progress(
        total=len(x) * samples, desc="effective sample size", unit="sample", unit_scale=True
    )
    block = 0
    for start, stop in blocks(len(x), examples):
        running = [LogSumExp(stop - start) for _ in powers]
        for first, last in blocks(samples, per_block):
            log_r = weigh(x[start:stop], last - first, block)
            block += 1
            for power, total in zip(powers, running):
                total.add(power * log_r)
            bar.update(log_r.size)
        sums[:, start:stop] = [total.value for total in running]
    bar.close()
    half, one, two = sums
    return EffectiveSampleSize(
        samples, 100 * np.exp(2 * half - one) / samples, 100 * np.exp(2 * one - two) / samples
    )

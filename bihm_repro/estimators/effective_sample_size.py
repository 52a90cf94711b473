"""Effective sample size of q(h|x) as a proposal, in percent of K, averaged over examples.

ess = (sum_k w_k)^2 / sum_k w_k^2, with weights sqrt(r) for p*(h|x) and r for p(h|x), where
r = p(x, h) / q(h|x). The same sums give log p(x) and log p~*(x) at this K, see ``log_likelihood``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from bihm_repro.estimators.blocks import WeightEstimator, run_estimator
from bihm_repro.estimators.streaming import LogWeights, check_count, check_data, standard_error
from bihm_repro.models.base import Model
from bihm_repro.ops.random_numbers import seed_for

__all__ = ["EffectiveSampleSizeEstimator", "estimate_effective_sample_size"]


@dataclass(frozen=True)
class EffectiveSampleSize:
    """Per-example effective sample sizes in percent of ``samples``, (examples,) each.

    log_p, log_p_tilde_star : estimates from the same samples, (examples,)
    earlier : the same of the first samples alone, for smaller K
    """

    samples: int
    p_star: np.ndarray
    p: np.ndarray
    log_p: np.ndarray
    log_p_tilde_star: np.ndarray
    earlier: tuple[EffectiveSampleSize, ...] = ()

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


class EffectiveSampleSizeEstimator(WeightEstimator):
    """The estimate from ``samples`` samples for each row of ``x`` (examples, data_dim).

    ``earlier`` are smaller K at which the first samples are measured too.
    """

    title = "effective sample size"

    def __init__(
        self,
        model: Model,
        x: np.ndarray,
        samples: int = 10_000,
        seed: int = 0,
        log_weights: LogWeights | None = None,
        earlier: Sequence[int] = (),
    ) -> None:
        x = check_data(x, model.data_dim)
        samples = check_count(samples, "ess_samples")
        super().__init__(model, x, samples, seed_for(seed, self.title), log_weights)
        self._counts = sorted({*(k for k in earlier if k < samples), samples})
        self.key += f", samples {self._counts}"
        self.arrays = {
            "running": np.zeros((3, self.examples)),
            "found": np.zeros((len(self._counts), 3, len(x))),
        }

    def sums(self, number: int) -> np.ndarray:
        """Return the logarithms (parts, 3, examples) of the sums of sqrt(r), r and r squared."""
        parts = self.log_r_parts(number, self._counts)
        return np.array(
            [[logsumexp(power * r, axis=1) for power in (0.5, 1.0, 2.0)] for r in parts]
        )

    def add(self, number: int, sums: np.ndarray) -> None:
        """Add the parts of a block; note the sums of each K that is reached."""
        examples, first, _ = self.place(number)
        running = self.arrays["running"][:, : examples.stop - examples.start]
        if first == 0:
            running[:] = -np.inf
        for end, part in zip(self.ends(number, self._counts), sums):
            np.logaddexp(running, part, out=running)
            if end in self._counts:
                self.arrays["found"][self._counts.index(end), :, examples] = running

    def result(self) -> EffectiveSampleSize:
        """Return the effective sample sizes."""
        *earlier, last = map(_from_log_sums, self._counts, self.arrays["found"])
        return replace(last, earlier=tuple(earlier))


def _from_log_sums(samples: int, log_sums: np.ndarray) -> EffectiveSampleSize:
    half, one, two = log_sums
    p_star, p = (100 * np.exp(ratio) / samples for ratio in (2 * half - one, 2 * one - two))
    log_count = np.log(samples)
    return EffectiveSampleSize(samples, p_star, p, one - log_count, 2 * (half - log_count))


def estimate_effective_sample_size(*arguments: Any, **options: Any) -> EffectiveSampleSize:
    """Estimate with what the estimator is given."""
    return run_estimator(EffectiveSampleSizeEstimator(*arguments, **options))

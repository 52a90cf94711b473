"""Log-likelihoods at the K of the effective sample size, without drawing more samples.

With a the estimates at the largest K of all N examples, b those of n of them at the larger K of the
effective sample size, the mean of b over all examples is estimated by

    mean(a) + mean(b - a),    over N and over n examples.

Its standard error is small even for small n, since b - a varies far less than b. The terms share
the n examples, so that its variance is (var a + 2 cov(a, b - a)) / N + var(b - a) / n.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bihm_repro.estimators.effective_sample_size import EffectiveSampleSize
from bihm_repro.estimators.log_likelihood import LogLikelihood
from bihm_repro.estimators.partition_function import LogZ2

__all__ = ["two_phase_mean", "with_more_samples"]


def two_phase_mean(few: np.ndarray, many: np.ndarray, rows: np.ndarray) -> dict[str, float]:
    """Return mean and standard error of ``many``, known for some examples only, and their number.

    Parameters
    ----------
    few : (N,), an estimate of every example
    many : (n,), a better estimate of the examples ``rows``
    rows : (n,), their numbers
    """
    known, gain = few[rows], many - few[rows]
    error = 0.0
    if len(rows) > 1:
        together = np.cov(known, gain)
        variance = (np.var(few, ddof=1) + 2 * together[0, 1]) / len(few)
        error = float(np.sqrt(max(variance, 0.0) + together[1, 1] / len(rows)))
    value = float(few.mean() + gain.mean())
    return {"value": value, "standard_error": error, "examples": len(rows)}


def with_more_samples(
    estimates: Mapping[int, LogLikelihood],
    ess: EffectiveSampleSize,
    rows: np.ndarray,
    log_z2: LogZ2 | None = None,
) -> dict[str, dict[str, dict[str, float]]]:
    """Return the estimates at the K of ``ess``, by K; empty where K is not larger than all others.

    ``rows`` are the numbers of the examples that ``ess`` was measured on.
    """
    few = estimates[max(estimates)]
    if ess.samples <= few.samples:
        return {}
    star = two_phase_mean(few.log_p_tilde_star, ess.log_p_tilde_star, rows)
    found = {
        "log_p": two_phase_mean(few.log_p, ess.log_p, rows),
        "log_p_tilde_star": star,
    }
    if log_z2 is not None:
        found["log_p_star"] = {**star, "value": star["value"] - log_z2.value}
    return {str(ess.samples): found}

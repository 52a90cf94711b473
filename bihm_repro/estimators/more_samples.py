"""Log-likelihoods at the K of the effective sample size, without drawing more samples.

With a the estimates at the largest K of all N examples, b those of n of them at the larger K of the
effective sample size, or at a power of ten on the way to it, the mean of b over all examples is
estimated by

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

__all__ = ["powers_of_ten", "two_phase_mean", "with_more_samples"]


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


def powers_of_ten(after: int, before: int) -> list[int]:
    """Return those between two numbers.

    >>> powers_of_ten(1000, 1_000_000), powers_of_ten(1000, 10_000)
    ([10000, 100000], [])
    """
    return [k for k in (10**n for n in range(len(str(before)))) if after < k < before]


def with_more_samples(
    estimates: Mapping[int, LogLikelihood],
    ess: EffectiveSampleSize,
    rows: np.ndarray,
    log_z2: LogZ2 | None = None,
) -> dict[str, dict[str, dict[str, float]]]:
    """Return the estimates at each K of ``ess`` that is larger than those of ``estimates``, by K.

    ``rows`` are the numbers of the examples that ``ess`` was measured on.
    """
    few = estimates[max(estimates)]
    return {
        str(many.samples): _continued(few, many, rows, log_z2)
        for many in (*ess.earlier, ess)
        if many.samples > few.samples
    }


def _continued(
    few: LogLikelihood, many: EffectiveSampleSize, rows: np.ndarray, log_z2: LogZ2 | None
) -> dict[str, dict[str, float]]:
    star = two_phase_mean(few.log_p_tilde_star, many.log_p_tilde_star, rows)
    found = {
        "log_p": two_phase_mean(few.log_p, many.log_p, rows),
        "log_p_tilde_star": star,
    }
    if log_z2 is not None:
        found["log_p_star"] = {**star, "value": star["value"] - log_z2.value}
    return found

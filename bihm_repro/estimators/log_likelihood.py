"""log p(x) and log p~*(x) by importance sampling with h ~ q(h|x) (the paper's equations 4 and 5).

With log r = log p(x, h) - log q(h|x) and K samples,
    log p(x)   ~  log mean_k exp(log r_k)
    log p~*(x) ~  2 log mean_k exp(log r_k / 2)
At K = 1 the mean of the first over x is the variational bound.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from bihm_repro.ops.random_numbers import seed_for
from bihm_repro.progress import progress

__all__ = ["LogLikelihood", "estimate_log_likelihood"]


@dataclass(frozen=True)
class LogLikelihood:
    """Per-example estimates with ``samples`` samples each; nats.

    log_p, log_p_tilde_star, log_p_star : (examples,); the last is None without 2 log Z
    """

    samples: int
    log_p: np.ndarray
    log_p_tilde_star: np.ndarray
    log_p_star: np.ndarray | None = None

    def summary(self) -> dict[str, dict[str, float]]:
        """Mean and standard error over the examples of each figure."""
        figures = {"log_p": self.log_p, "log_p_tilde_star": self.log_p_tilde_star,
                   "log_p_star": self.log_p_star}
        return {name: {"value": float(np.mean(v)), "standard_error": standard_error(v)}
                for name, v in figures.items() if v is not None}


def estimate_log_likelihood(model, x: np.ndarray, samples: Sequence[int] = (1000,), *,
                            log_z2: float | None = None, seed: int = 0,
                            log_weights: LogWeights | None = None) -> dict[int, LogLikelihood]:
    """Estimates for every K in ``samples``, all from the same draws, in constant memory.

    Parameters
    ----------
    x : (examples, data_dim), values in [0, 1]
    samples : the numbers of samples wanted; the first K draws serve for K
    log_z2 : 2 log Z, where log p*(x) is wanted too
    log_weights : compiled before, to be used again (its seed then counts)
    """
    x = check_data(x, model.data_dim)
    wanted = sorted({check_count(k, "samples") for k in samples})
    weigh = log_weights or LogWeights(model, seed_for(seed, "log-likelihood"))
    examples, per_block = block_shape(model, wanted[-1])
    log_p = np.empty((len(wanted), len(x)))
    log_p_tilde = np.empty_like(log_p)
    bar = progress(total=len(x) * wanted[-1], desc="log-likelihood", unit="sample",
                   unit_scale=True)
    block = 0
    for start, stop in blocks(len(x), examples):
        sums = LogSumExp(stop - start), LogSumExp(stop - start)
        done = 0
        for first, last in blocks(wanted[-1], per_block):
            log_r = weigh(x[start:stop], last - first, block)
            block += 1
            marks = [k for k in wanted if first < k <= last]
            for mark in sorted({*marks, last}):
                part = log_r[:, done - first:mark - first]
                sums[0].add(part)
                sums[1].add(part / 2)
                done = mark
                if mark in marks:
                    row = wanted.index(mark)
                    log_p[row, start:stop] = sums[0].value - np.log(mark)
                    log_p_tilde[row, start:stop] = 2 * (sums[1].value - np.log(mark))
            bar.update(log_r.size)
    bar.close()
    return {k: LogLikelihood(k, log_p[i], log_p_tilde[i],
                             None if log_z2 is None else log_p_tilde[i] - log_z2)
            for i, k in enumerate(wanted)}

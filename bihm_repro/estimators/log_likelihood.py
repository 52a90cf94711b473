"""log p(x) and log p~*(x) by importance sampling with h ~ q(h|x) (the paper's equations 4 and 5).

With log r = log p(x, h) - log q(h|x) and K samples,
    log p(x)   ~  log mean_k exp(log r_k)
    log p~*(x) ~  2 log mean_k exp(log r_k / 2)
and mean_k log r_k estimates the variational bound, which is also the expectation of the first
estimate at K = 1. Models that have an exact log p(x) need no samples.
"""

from __future__ import annotations

import time
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
from bihm_repro.models.base import Model
from bihm_repro.models.registry import Capability
from bihm_repro.ops.random_numbers import seed_for
from bihm_repro.progress import progress

__all__ = ["LogLikelihood", "estimate_log_likelihood", "samples_per_second"]


@dataclass(frozen=True)
class LogLikelihood:
    """Per-example estimates with ``samples`` samples each; nats.

    log_p, log_p_tilde_star, bound : (examples,)
    log_p_star : (examples,), or None without 2 log Z
    """

    samples: int
    log_p: np.ndarray
    log_p_tilde_star: np.ndarray
    bound: np.ndarray
    log_p_star: np.ndarray | None = None

    def summary(self) -> dict[str, dict[str, float]]:
        """Return mean and standard error over the examples of each log-likelihood."""
        metrics = {
            "log_p": self.log_p,
            "log_p_tilde_star": self.log_p_tilde_star,
            "log_p_star": self.log_p_star,
        }
        return {
            name: {"value": float(np.mean(v)), "standard_error": standard_error(v)}
            for name, v in metrics.items()
            if v is not None
        }


class _Sums:
    """Running sums over the samples of some examples: of r, sqrt(r) and log r."""

    def __init__(self, examples: int) -> None:
        self._whole, self._root = LogSumExp(examples), LogSumExp(examples)
        self._bound, self._count = np.zeros(examples), 0

    def add(self, log_r: np.ndarray) -> None:
        """Add the samples (examples, n)."""
        self._whole.add(log_r)
        self._root.add(log_r / 2)
        self._bound += log_r.sum(axis=1)
        self._count += log_r.shape[1]

    def estimates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log p, log p~* and the bound from the samples so far, (examples,) each."""
        log_count = np.log(self._count)
        return (
            self._whole.value - log_count,
            2 * (self._root.value - log_count),
            self._bound / self._count,
        )


def estimate_log_likelihood(
    model: Model,
    x: np.ndarray,
    samples: Sequence[int] = (1000,),
    *,
    log_z2: float | None = None,
    seed: int = 0,
    log_weights: LogWeights | None = None,
    block: tuple[int, int] | None = None,
    quiet: bool = False,
) -> dict[int, LogLikelihood]:
    """Return estimates for every K in ``samples``, all from the same samples, in constant memory.

    Parameters
    ----------
    x : (examples, data_dim), values in [0, 1]
    samples : the numbers K; the first K samples of an example are used for K
    log_z2 : 2 log Z, where log p*(x) is wanted too
    seed : the same seed gives the same random numbers, whatever was estimated before
    log_weights : compiled before, to be used again; its seed then counts
    block : examples and samples of each that are drawn at once. Random numbers depend on it;
        by default it follows from the sizes of the model alone
    quiet : without a progress bar
    """
    x = check_data(x, model.data_dim)
    wanted = sorted({check_count(k, "samples") for k in samples})
    exact = model.can(Capability.EXACT_LOG_P)
    counts = [1] if exact else wanted
    weigh = log_weights or LogWeights(model, seed_for(seed, "log-likelihood"))
    examples, per_block = block or block_shape(model, counts[-1])
    found = np.empty((len(counts), 3, len(x)))
    bar = progress(
        total=len(x) * counts[-1],
        desc="log-likelihood",
        unit="sample",
        unit_scale=True,
        quiet=quiet,
    )
    number = 0
    for start, stop in blocks(len(x), examples):
        sums = _Sums(stop - start)
        for first, last in blocks(counts[-1], per_block):
            log_r = weigh(x[start:stop], last - first, number)
            number += 1
            done = first
            for mark in sorted({*(k for k in counts if first < k <= last), last}):
                sums.add(log_r[:, done - first : mark - first])
                done = mark
                if mark in counts:
                    found[counts.index(mark), :, start:stop] = sums.estimates()
            bar.update(log_r.size)
    bar.close()
    rows = np.repeat(found, len(wanted), axis=0) if exact else found
    return {
        k: LogLikelihood(k, log_p, tilde, bound, None if log_z2 is None else tilde - log_z2)
        for k, (log_p, tilde, bound) in zip(wanted, rows)
    }


def samples_per_second(model: Model, x: np.ndarray, samples: int = 100) -> float:
    """Time importance sampling of ``model`` on some rows of ``x`` (examples, data_dim)."""
    x, weigh = np.asarray(x)[:80], LogWeights(model, 0)
    for _ in range(2):  # the first call may compile
        start = time.perf_counter()
        estimate_log_likelihood(model, x, (samples,), log_weights=weigh, quiet=True)
    return len(x) * samples / (time.perf_counter() - start)

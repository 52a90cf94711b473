"""2 log Z by importance sampling (the paper's equation for Z^2).

    Z^2 = E_{x,h ~ p} [ sqrt(q(h|x) / p(x,h)) E_{h' ~ q(h|x)} sqrt(p(x,h') / q(h'|x)) ]

The mean over K_outer terms, each with K_inner samples h', is an unbiased estimate of Z^2; its
logarithm is low on average by about half its relative variance. The standard error of the
logarithm is that of the mean divided by the mean (the delta method).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from bihm_repro.engine.symbolic import T, function
from bihm_repro.estimators.blocks import Estimator, run_estimator
from bihm_repro.estimators.streaming import check_count
from bihm_repro.models.base import Model
from bihm_repro.models.registry import Capability, require
from bihm_repro.ops.numerics import log_mean_exp
from bihm_repro.ops.random_numbers import seed_for

__all__ = ["LogZ2", "LogZ2Estimator", "LogZTerms", "estimate_log_z2"]

_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class LogZ2:
    """An estimate of 2 log Z; ``samples`` is the number of outer samples that were drawn."""

    value: float
    standard_error: float
    samples: int
    inner: int
    trace: tuple[tuple[int, float], ...] = ()

    def summary(self) -> dict[str, float]:
        """What ``evaluation.json`` holds."""
        return {name: value for name, value in vars(self).items() if name != "trace"}


class LogZTerms:
    """Compiled logarithms of the terms of Z^2, to be used for more than one estimate."""

    def __init__(self, model: Model, inner: int = 1, seed: int = 0) -> None:
        require(model.kind, Capability.LOG_Z2)
        self.inner = check_count(inner, "z_inner")
        rows, count, counter = T.lscalar("rows"), T.lscalar("inner"), T.lscalar("counter")
        seed = seed_for(seed, f"log Z^2, {inner} inner")
        outer, log_r, self._counters = model.log_z_terms(rows, count, seed, counter)
        self._run = function([rows, counter, count], [outer, log_r])

    def __call__(self, rows: int, block: int) -> np.ndarray:
        """The terms (rows,) of block number ``block``, float64."""
        outer, log_r = self._run(rows, block * self._counters, self.inner)
        means = log_mean_exp(np.asarray(log_r, np.float64) / 2, axis=1)
        return np.asarray(outer, np.float64) + means


class LogZ2Estimator(Estimator):
    """The estimate of 2 log Z from ``samples`` outer samples with ``inner`` inner samples each.

    ``trace`` asks for the running estimate at about so many points, for plots. ``log_terms``,
    compiled before, may be used again (its seed and inner samples then count).
    """

    title = "2 log Z"

    def __init__(
        self,
        model: Model,
        samples: int = 100_000,
        inner: int = 1,
        seed: int = 0,
        trace: int = 0,
        log_terms: LogZTerms | None = None,
    ) -> None:
        require(model.kind, Capability.LOG_Z2)
        self.model, self.seed, self._given = model, seed, log_terms
        self.total = check_count(samples, "z_samples", minimum=2)  # the error of one is unknown
        self.inner = log_terms.inner if log_terms else check_count(inner, "z_inner")
        self._rows = max(1, _BLOCK_ROWS // self.inner)
        self.count = -(-self.total // self._rows)
        self.key = f"seed {seed}, {samples} samples, {inner} inner, blocks of {self._rows}"
        # The running estimate is noted at the ends of the blocks that reach a mark.
        marks = {-(-mark // self._rows) - 1 for mark in _marks(self.total, self._rows, trace)}
        self._noted = sorted(marks)
        self.arrays = {"log_sums": np.full(2, -np.inf), "trace": np.zeros(len(marks))}

    def size(self, number: int) -> int:
        """Return how many outer samples block ``number`` has."""
        return min(self._rows, self.total - number * self._rows)

    def sums(self, number: int) -> np.ndarray:
        """Return the logarithms of the sums of the terms and of their squares."""
        terms = self._log_terms(self.size(number), number)
        return np.array([logsumexp(terms), logsumexp(2 * terms)])

    @cached_property
    def _log_terms(self) -> LogZTerms:
        return self._given or LogZTerms(self.model, self.inner, self.seed)

    def add(self, number: int, sums: np.ndarray) -> None:
        """Add the sums of a block."""
        log_sums = self.arrays["log_sums"]
        np.logaddexp(log_sums, sums, out=log_sums)
        if number in self._noted:
            drawn = number * self._rows + self.size(number)
            self.arrays["trace"][self._noted.index(number)] = log_sums[0] - np.log(drawn)

    def result(self) -> LogZ2:
        """Return the estimate and its standard error."""
        log_sum, log_squares = self.arrays["log_sums"]
        value = log_sum - np.log(self.total)
        variance = max(np.exp(log_squares - np.log(self.total) - 2 * value) - 1.0, 0.0)
        error = float(np.sqrt(variance / (self.total - 1)))
        drawn = (number * self._rows + self.size(number) for number in self._noted)
        trace = tuple(zip(drawn, self.arrays["trace"].tolist()))
        return LogZ2(float(value), error, self.total, self.inner, trace)


def estimate_log_z2(
    model: Model, samples: int = 100_000, *, quiet: bool = False, **options: Any
) -> LogZ2:
    """Estimate 2 log Z with what the estimator is given; ``quiet`` omits the progress bar."""
    return run_estimator(LogZ2Estimator(model, samples, **options), quiet=quiet)


def _marks(samples: int, block: int, count: int) -> list[int]:
    """Where the running estimate is noted: evenly on a logarithmic axis."""
    if count < 1:
        return []
    start = min(block, samples)
    return sorted({int(m) for m in np.geomspace(start, samples, count).round()})

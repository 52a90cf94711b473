"""2 log Z by importance sampling (the paper's equation for Z^2).

    Z^2 = E_{x,h ~ p} [ sqrt(q(h|x) / p(x,h)) E_{h' ~ q(h|x)} sqrt(p(x,h') / q(h'|x)) ]

The mean over K_outer terms, each with K_inner samples h', is an unbiased estimate of Z^2; its
logarithm is low on average by about half its relative variance. The standard error of the
logarithm is that of the mean divided by the mean (the delta method).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from bihm_repro.engine.symbolic import T, function
from bihm_repro.estimators.streaming import check_count
from bihm_repro.models.base import Model
from bihm_repro.models.registry import Capability, require
from bihm_repro.ops.numerics import log_mean_exp
from bihm_repro.ops.random_numbers import seed_for
from bihm_repro.progress import progress

__all__ = ["LogZ2", "LogZTerms", "estimate_log_z2"]

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
        return {
            "value": self.value,
            "standard_error": self.standard_error,
            "samples": self.samples,
            "inner": self.inner,
        }


class LogZTerms:
    """Compiled logarithms of the terms of Z^2, to be used for more than one estimate."""

    def __init__(self, model: Model, inner: int = 1, seed: int = 0) -> None:
        require(model.kind, Capability.LOG_Z2)
        self.inner = check_count(inner, "z_inner")
        self._run, self._counters = _compile(
            model, self.inner, seed_for(seed, f"log Z^2, {inner} inner")
        )

    def __call__(self, rows: int, block: int) -> np.ndarray:
        """The terms (rows,) of block number ``block``, float64."""
        outer, log_r = self._run(rows, block * self._counters)
        means = log_mean_exp(np.asarray(log_r, np.float64) / 2, axis=1)
        return np.asarray(outer, np.float64) + means


def _compile(model: Model, inner: int, seed: int):
    """Return a function of (rows, counter) to the parts of the terms of Z^2."""
    counter = T.lscalar("counter")
    rows, count = T.lscalar("rows"), T.lscalar("inner")
    outer, log_r, used = model.log_z_terms(rows, count, seed, counter)
    compiled = function([rows, counter, count], [outer, log_r])
    return (lambda n, at: compiled(n, at, inner)), used


def estimate_log_z2(
    model: Model,
    samples: int = 100_000,
    *,
    inner: int = 1,
    seed: int = 0,
    trace: int = 0,
    log_terms: LogZTerms | None = None,
    quiet: bool = False,
) -> LogZ2:
    """Estimate 2 log Z from ``samples`` outer samples with ``inner`` inner samples each.

    ``trace`` asks for the running estimate at about so many points, for plots. ``log_terms``,
    compiled before, may be used again (its seed and inner samples then count). ``quiet`` omits
    the progress bar.
    """
    samples = check_count(samples, "z_samples", least=2)  # the error of one sample is unknown
    log_terms = log_terms or LogZTerms(model, inner, seed)
    inner = log_terms.inner
    block = max(1, _BLOCK_ROWS // inner)
    marks = _marks(samples, block, trace)
    log_sum, log_squares, drawn, points = -np.inf, -np.inf, 0, []
    bar = progress(total=samples, desc="2 log Z", unit="sample", unit_scale=True, quiet=quiet)
    while drawn < samples:
        rows = min(block, samples - drawn)
        terms = log_terms(rows, drawn // block)
        log_sum = np.logaddexp(log_sum, logsumexp(terms))
        log_squares = np.logaddexp(log_squares, logsumexp(2 * terms))
        drawn += rows
        bar.update(rows)
        while marks and drawn >= marks[0]:
            points.append((drawn, float(log_sum - np.log(drawn))))
            marks = [m for m in marks if m > drawn]
    bar.close()
    value = log_sum - np.log(drawn)
    variance = max(np.exp(log_squares - np.log(drawn) - 2 * value) - 1.0, 0.0)
    error = float(np.sqrt(variance / max(drawn - 1, 1)))
    return LogZ2(float(value), error, drawn, inner, tuple(points))


def _marks(samples: int, block: int, count: int) -> list[int]:
    """Where the running estimate is noted: evenly on a logarithmic axis."""
    if count < 1:
        return []
    start = min(block, samples)
    return sorted({int(m) for m in np.geomspace(start, samples, count).round()})

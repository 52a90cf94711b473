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
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from bihm_repro.estimators.blocks import WeightEstimator, run_estimator
from bihm_repro.estimators.streaming import LogWeights, check_count, check_data, standard_error
from bihm_repro.models.base import Model
from bihm_repro.models.registry import Capability
from bihm_repro.ops.random_numbers import seed_for

__all__ = [
    "LogLikelihood",
    "LogLikelihoodEstimator",
    "estimate_log_likelihood",
    "samples_per_second",
]


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

    def with_log_z2(self, log_z2: float | None) -> LogLikelihood:
        """Return the same estimates with log p* = log p~* - 2 log Z."""
        star = None if log_z2 is None else self.log_p_tilde_star - log_z2
        return replace(self, log_p_star=star)

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


class LogLikelihoodEstimator(WeightEstimator):
    """The estimates for every K in ``samples`` from the same samples; see the function below."""

    title = "log-likelihood"

    def __init__(
        self,
        model: Model,
        x: np.ndarray,
        samples: Sequence[int] = (1000,),
        seed: int = 0,
        log_weights: LogWeights | None = None,
        block: tuple[int, int] | None = None,
    ) -> None:
        x = check_data(x, model.data_dim)
        self.wanted = sorted({check_count(k, "samples") for k in samples})
        self._exact = model.can(Capability.EXACT_LOG_P)
        self._counts = [1] if self._exact else self.wanted
        super().__init__(
            model, x, self._counts[-1], seed_for(seed, "log-likelihood"), log_weights, block
        )
        self.key += f", samples {self._counts}"
        self.arrays = {
            "running": np.zeros((3, self.examples)),
            "found": np.zeros((len(self._counts), 3, len(x))),
        }

    def sums(self, number: int) -> np.ndarray:
        """Return the sums (parts, 3, examples) of r, sqrt(r) (both as logarithms) and log r.

        A block has a part for each K that it reaches, and one for what is left.
        """
        parts = self.log_r_parts(number, self._counts)
        return np.array(
            [(logsumexp(r, axis=1), logsumexp(r / 2, axis=1), r.sum(axis=1)) for r in parts]
        )

    def add(self, number: int, sums: np.ndarray) -> None:
        """Add the parts of a block; note the estimates of each K that is reached."""
        examples, first, _ = self.place(number)
        whole, root, bound = self.arrays["running"][:, : examples.stop - examples.start]
        if first == 0:
            whole[:], root[:], bound[:] = -np.inf, -np.inf, 0.0
        for end, part in zip(self.ends(number, self._counts), sums):
            np.logaddexp(whole, part[0], out=whole)
            np.logaddexp(root, part[1], out=root)
            bound += part[2]
            if end in self._counts:
                self.arrays["found"][self._counts.index(end), :, examples] = (
                    whole - np.log(end),
                    2 * (root - np.log(end)),
                    bound / end,
                )

    def result(self) -> dict[int, LogLikelihood]:
        """Return the estimates by K."""
        found = self.arrays["found"]
        rows = np.repeat(found, len(self.wanted), axis=0) if self._exact else found
        return {k: LogLikelihood(k, *row) for k, row in zip(self.wanted, rows)}


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
    estimator = LogLikelihoodEstimator(model, x, samples, seed, log_weights, block)
    found = run_estimator(estimator, quiet=quiet)
    return {k: estimate.with_log_z2(log_z2) for k, estimate in found.items()}


def samples_per_second(model: Model, x: np.ndarray, samples: int = 100) -> float:
    """Time importance sampling of ``model`` on some rows of ``x`` (examples, data_dim)."""
    x, weigh = np.asarray(x)[:80], LogWeights(model, 0)
    for _ in range(2):  # the first call may compile
        start = time.perf_counter()
        estimate_log_likelihood(model, x, (samples,), log_weights=weigh, quiet=True)
    return len(x) * samples / (time.perf_counter() - start)

"""Metrics while training: those on validation, which decide, and those on the test set.

They are the estimates of ``estimators`` with the same random numbers at each call, so that the
metrics of two epochs differ by the parameters alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from bihm_repro.estimators.log_likelihood import LogLikelihood, estimate_log_likelihood
from bihm_repro.estimators.partition_function import LogZTerms, estimate_log_z2
from bihm_repro.estimators.streaming import LogWeights
from bihm_repro.models.base import Model
from bihm_repro.models.registry import Capability
from bihm_repro.ops.random_numbers import seed_for
from bihm_repro.ops.random_stream import random_rows
from bihm_repro.recipes.recipe import Phase, Recipe
from bihm_repro.training.extensions import Extension, MainLoop
from bihm_repro.training.extensions.stopping import non_finite

__all__ = [
    "BestSoFar",
    "MetricsOnTestSet",
    "Validation",
    "compile_test_metrics",
    "compile_validation",
]

Measure = Callable[[], dict[str, float]]

ROWS_AT_ONCE = 4000
"""Examples times samples that are drawn together; the random numbers depend on it."""


def compile_validation(
    model: Model, examples: np.ndarray, counts: Iterable[int], seed: int
) -> dict[int, Measure]:
    """Compile the validation of ``model`` on ``examples`` (n, data_dim).

    Returns, for each number of samples K of ``counts``, a function that gives the mean metrics.
    """
    weigh = LogWeights(model, seed)

    def measure(samples: int) -> dict[str, float]:
        found = _estimates(model, examples, (samples,), weigh)[samples]
        metrics = {"valid_log_p": found.log_p, "valid_bound": found.bound}
        if model.can(Capability.P_STAR):
            metrics["valid_log_p_tilde_star"] = found.log_p_tilde_star
        return {name: float(values.mean()) for name, values in metrics.items()}

    return {samples: partial(measure, samples) for samples in counts}


def compile_test_metrics(model: Model, examples: np.ndarray, recipe: Recipe) -> Measure:
    """Compile the test columns of the log, on a random subset of ``examples`` (n, data_dim)."""
    monitor = recipe.monitor
    examples = random_rows(examples, monitor.test_examples, recipe.seed)
    weigh = LogWeights(model, seed_for(recipe.seed, "test"))
    terms = None
    if monitor.z_samples and model.can(Capability.LOG_Z2):
        terms = LogZTerms(model, 1, seed_for(recipe.seed, "z"))

    def measure() -> dict[str, float]:
        metrics = {}
        for k, found in _estimates(model, examples, monitor.test_samples, weigh).items():
            metrics[f"test_log_p_{k}"] = float(found.log_p.mean())
            if model.can(Capability.P_STAR):
                metrics[f"test_log_p_tilde_star_{k}"] = float(found.log_p_tilde_star.mean())
        if terms is not None:
            metrics["log_z2"] = estimate_log_z2(
                model, max(2, monitor.z_samples), log_terms=terms, quiet=True
            ).value
        return metrics

    return measure


def _estimates(
    model: Model, examples: np.ndarray, samples: Iterable[int], weigh: LogWeights
) -> dict[int, LogLikelihood]:
    samples = tuple(samples)
    block = max(1, ROWS_AT_ONCE // max(samples)), max(samples)
    return estimate_log_likelihood(
        model, examples, samples, log_weights=weigh, block=block, quiet=True
    )


class Validation(Extension):
    """Writes the validation metrics of every ``every``-th epoch, and of a phase's last.

    A phase may have a K of its own. The best parameters so far are then measured again with it, so
    that only estimates with the same K are compared.
    """

    def __init__(self, measures: Mapping[int, Measure], samples: int, every: int = 1) -> None:
        """Measure with ``measures[K]()``, see ``compile_validation``.

        ``samples`` is the K of phases that have none of their own.
        """
        self.measures, self.samples, self.every = measures, samples, every

    def before_phase(self, loop: MainLoop) -> None:
        """Measure the best parameters, which the model holds, where the last phase's K differs."""
        status, phases = loop.log.status, loop.recipe.phases
        if (
            status.phase
            and not status.phase_updates
            and status.best_valid is not None
            and (self._k(loop.phase) != self._k(phases[status.phase - 1]))
        ):
            status.best_valid = self._measure(loop.phase)["valid_log_p"]

    def after_epoch(self, loop: MainLoop) -> None:
        """Measure where it is due."""
        log = loop.log
        due = (log.status.phase_epoch + 1) % self.every == 0
        if due or log.status.phase_stop or log.pause:
            metrics = self._measure(loop.phase)
            if not math.isfinite(metrics["valid_log_p"]):
                raise non_finite(loop, "the validation log p")
            log.row.update(metrics)

    def _k(self, phase: Phase) -> int:
        return phase.valid_samples or self.samples

    def _measure(self, phase: Phase) -> dict[str, float]:
        return self.measures[self._k(phase)]()


class BestSoFar(Extension):
    """Keeps the parameters with the best validation log p, and marks their epoch in the log."""

    def after_epoch(self, loop: MainLoop) -> None:
        """Compare the log p of this epoch with the best one."""
        status, row = loop.log.status, loop.log.row
        log_p = row.get("valid_log_p")
        if log_p is None:
            return
        row["best"] = status.best_valid is None or log_p > status.best_valid
        if row["best"]:
            status.best_valid, status.best_epoch = log_p, row["epoch"]
            loop.best = loop.model.get_values()


class MetricsOnTestSet(Extension):
    """Writes the metrics on the test set of every ``every``-th epoch; they decide nothing."""

    def __init__(self, measure: Measure, every: int) -> None:
        """Measure with ``measure()``, whose keys are columns of the log."""
        self.measure, self.every = measure, every

    def after_epoch(self, loop: MainLoop) -> None:
        """Measure where it is due."""
        if (loop.log.status.epoch + 1) % self.every == 0:
            metrics = self.measure()
            loop.log.row.update(
                {name: value for name, value in metrics.items() if math.isfinite(value)}
            )

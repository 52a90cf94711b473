"""Figures while training: log p(x), log p~*(x) and the bound on fixed examples, and 2 log Z.

With log r = log p(x,h) - log q(h|x), h ~ q(h|x) and K samples (equations 5 and 4 of the paper):
log p is the log-mean-exp of log r, log p~* twice that of log r / 2, and the bound is the mean of
log r, which is the estimate of log p with one sample. The random draws are the same at each
call, so that the figures of two epochs differ by the parameters alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bihm_repro.engine.symbolic import T, function
from bihm_repro.models.registry import Capability
from bihm_repro.ops.random_numbers import seed_for, uniform
from bihm_repro.recipes.recipe import Recipe

__all__ = ["compile_validation", "compile_test_figures", "log_mean_exp", "random_subset",
           "samples_per_second"]

ROWS_AT_ONCE = 4000


def compile_validation(model: Any, examples: np.ndarray, samples: int,
                       seed: int) -> Callable[[], dict[str, float]]:
    """Compile the validation of ``model`` on ``examples`` of shape ``(n, data_dim)``.

    Returns a function without arguments that gives the mean figures per example.
    """
    measure = _compile_figures(model, examples, [samples], seed)

    def validate() -> dict[str, float]:
        figures = measure()
        named = {"valid_log_p": figures["log_p", samples], "valid_bound": figures["bound", 1]}
        if _has_tilde(model):
            named["valid_log_p_tilde_star"] = figures["log_p_tilde_star", samples]
        return named

    return validate


def compile_test_figures(model: Any, examples: np.ndarray,
                         recipe: Recipe) -> Callable[[], dict[str, float]]:
    """Compile the test columns of the log, on a random subset of ``examples`` ``(n, data_dim)``."""
    monitor = recipe.monitor
    if monitor.test_examples:
        examples = random_subset(examples, monitor.test_examples, recipe.seed)
    measure = _compile_figures(model, examples, monitor.test_samples,
                               seed_for(recipe.seed, "test"))
    quantities = ["log_p", "log_p_tilde_star"] if _has_tilde(model) else ["log_p"]
    log_z2 = None
    if monitor.z_samples and model.can(Capability.LOG_Z2):
        log_z2 = _compile_log_z2(model, monitor.z_samples, seed_for(recipe.seed, "z"))

    def measure_test() -> dict[str, float]:
        figures = measure()
        named = {f"test_{quantity}_{k}": figures[quantity, k]
                 for quantity in quantities for k in monitor.test_samples}
        return named if log_z2 is None else {**named, "log_z2": log_z2()}

    return measure_test


def random_subset(examples: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return ``count`` random rows of ``(n, data_dim)``, the same ones for the same seed."""
    order = np.argsort(uniform(seed_for(seed, "subset"), 0, 1, len(examples))[0], kind="stable")
    return examples[np.sort(order[:count])]


def log_mean_exp(values: np.ndarray) -> np.ndarray:
    """Return the log of the mean of exp over the last axis of ``(..., samples)``."""
    largest = values.max(axis=-1, keepdims=True)
    return np.log(np.exp(values - largest).mean(axis=-1)) + largest[..., 0]


def samples_per_second(model: Any, examples: np.ndarray, samples: int = 100) -> float:
    """Time the importance sampling of ``model`` on some of ``examples`` ``(n, data_dim)``."""
    some = examples[:max(1, 2 * ROWS_AT_ONCE // samples)]
    measure = _compile_figures(model, some, [samples], seed=0)
    measure()
    start = time.perf_counter()
    measure()
    return len(some) * samples / (time.perf_counter() - start)


def _has_tilde(model: Any) -> bool:
    return model.can(Capability.P_STAR)


def _compile_figures(model: Any, examples: np.ndarray, samples: Sequence[int],
                     seed: int) -> Callable[[], dict[tuple[str, int], float]]:
    most = max(samples)
    x, draw = T.matrix("x", dtype="float32"), T.scalar("draw", dtype="int64")
    log_r, draws = model.log_weights(x, most, seed, draw)
    log_weights = function([x, draw], log_r)
    size = max(1, ROWS_AT_ONCE // most)

    def measure() -> dict[tuple[str, int], float]:
        totals: dict[tuple[str, int], float] = {}
        for number, start in enumerate(range(0, len(examples), size)):
            chunk = np.asarray(examples[start:start + size], dtype=np.float32)
            values = log_weights(chunk, np.int64(number * draws)).astype(np.float64)
            for key, total in _sums(values, samples).items():
                totals[key] = totals.get(key, 0.0) + total
        return {key: total / len(examples) for key, total in totals.items()}

    return measure


def _sums(log_r: np.ndarray, samples: Sequence[int]) -> dict[tuple[str, int], float]:
    """Sum the estimates of all rows of ``(n, most)``; smaller K average over groups of K."""
    rows, most = log_r.shape
    sums = {("bound", 1): float(log_r.mean(axis=1).sum())}
    for k in samples:
        groups = most // k
        values = log_r[:, :groups * k].reshape(rows, groups, k)
        sums["log_p", k] = float(log_mean_exp(values).mean(axis=1).sum())
        sums["log_p_tilde_star", k] = float(2 * log_mean_exp(values / 2).mean(axis=1).sum())
    return sums


def _compile_log_z2(model: Any, samples: int, seed: int) -> Callable[[], float]:
    """Compile 2 log Z from ``samples`` outer samples with one inner sample each (equation 7)."""
    rows = min(samples, ROWS_AT_ONCE)
    draw = T.scalar("draw", dtype="int64")
    outer, log_r, draws = model.log_z_terms(rows, 1, seed, draw)
    terms = function([draw], outer + log_r[:, 0] / 2)

    def estimate() -> float:
        calls = -(-samples // rows)
        values = np.concatenate([terms(np.int64(call * draws)) for call in range(calls)])
        return float(log_mean_exp(values[:samples].astype(np.float64)))

    return estimate

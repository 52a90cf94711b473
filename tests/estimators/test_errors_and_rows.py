"""Standard errors by hand, random rows for the ESS: what an estimate's value does not show."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from bihm_repro.estimators import (
    active_units,
    annealing,
    evaluate,
    log_likelihood,
    partition_function,
)
from bihm_repro.estimators.effective_sample_size import (
    EffectiveSampleSize,
    EffectiveSampleSizeEstimator,
)
from bihm_repro.estimators.log_likelihood import LogLikelihood, LogLikelihoodEstimator
from bihm_repro.estimators.partition_function import LogZ2Estimator, estimate_log_z2
from bihm_repro.estimators.streaming import standard_error
from bihm_repro.models.registry import Capability
from bihm_repro.recipes.recipe import EvaluationRecipe

VALUES = np.array([1.0, 2.0, 3.0, 6.0])
ERROR = np.sqrt((4 + 1 + 0 + 9) / 3 / 4)
"""Deviations from the mean 3, n - 1 = 3, n = 4."""


def test_standard_errors_are_those_of_the_mean():
    found = LogLikelihood(1, VALUES, VALUES - 1, VALUES, 2 * VALUES).summary()
    assert found["log_p"] == {"value": 3.0, "standard_error": pytest.approx(ERROR)}
    assert found["log_p_tilde_star"]["standard_error"] == pytest.approx(ERROR)
    assert found["log_p_star"]["standard_error"] == pytest.approx(2 * ERROR)
    ess = EffectiveSampleSize(10, 3 * VALUES, VALUES, VALUES, VALUES).summary()
    assert ess["p_star"] == {"value": 9.0, "standard_error": pytest.approx(3 * ERROR)}
    assert ess["p"]["standard_error"] == pytest.approx(ERROR)
    assert (
        LogLikelihood(1, VALUES[:1], VALUES[:1], VALUES[:1]).summary()["log_p"]["standard_error"]
        == 0
    )


@pytest.mark.parametrize(
    ("values", "error"), [([5.0], 0.0), ([1.0, 3.0], 1.0), ([0.0, 0.0, 3.0], 1.0)]
)
def test_standard_errors_of_few_values(values, error):
    assert standard_error(np.array(values)) == pytest.approx(error)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 50.0])
def test_the_error_of_a_logarithm_is_relative_to_the_mean(scale):
    """log of the mean of the terms, and the delta method: the mean's error over the mean."""

    class Terms:
        inner = 1

        def __call__(self, rows, block):
            return np.log(scale * VALUES[:rows])

    found = estimate_log_z2(SimpleNamespace(kind="bihm"), 4, log_terms=Terms())
    assert found.value == pytest.approx(np.log(3 * scale))
    assert found.standard_error == pytest.approx(ERROR / 3)


class Model:
    """A model that can do nothing beyond importance weights."""

    data_dim, layers, kind = 2, [1], "stub"

    def can(self, capability):
        return capability is Capability.P_STAR


def test_the_ess_is_measured_on_random_rows():
    """Test sets may be sorted by class: the first rows would be all of one."""
    x = (np.repeat(np.arange(100)[:, None], 2, axis=1) / 100).astype(np.float32)
    settings = EvaluationRecipe(samples=(1,), ess_samples=5, ess_examples=20)
    seen = [
        evaluate.estimators_of(Model(), x, settings, seed)["effective sample size"].x
        for seed in (0, 0, 1)
    ]
    first, again, other = (rows[:, 0] for rows in seen)
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    for rows in (first, other):
        assert len(set(rows)) == 20 and not np.array_equal(rows, x[:20, 0])
        assert abs(rows.mean() - 0.5) < 4 * 0.29 / np.sqrt(20)


@pytest.mark.parametrize(
    ("function", "defaults"),
    [
        (log_likelihood.estimate_log_likelihood, {"samples": (1000,), "seed": 0}),
        (log_likelihood.samples_per_second, {"samples": 100}),
        (partition_function.estimate_log_z2, {"samples": 100_000}),
        (annealing.estimate_log_z, {"chains": 100, "steps": 10_000, "seed": 0}),
        (active_units.active_units, {"seed": 0}),
        (evaluate.evaluate_run, {"examples": 0, "split": "test", "seed": 0, "write": True}),
        (evaluate.write_z_trace, {"samples": 10**6, "runs": 10, "inner": (1, 10, 100), "seed": 0}),
        (LogLikelihoodEstimator, {"samples": (1000,), "seed": 0}),
        (LogZ2Estimator, {"samples": 100_000, "inner": 1, "seed": 0, "trace": 0}),
        (EffectiveSampleSizeEstimator, {"samples": 10_000, "seed": 0}),
    ],
)
def test_what_is_not_asked_for_stays_as_it_is(function, defaults):
    """Seeds and numbers of samples that the documentation states, and that results depend on."""
    given = inspect.signature(function).parameters
    assert {name: given[name].default for name in defaults} == defaults


@pytest.mark.parametrize(("trace", "points"), [(0, 0), (1, 1), (3, 3)])
def test_the_running_estimate_is_noted_as_often_as_asked_for(trace, points):
    class Terms:
        inner = 4096  # a row for each block

        def __call__(self, rows, block):
            return np.full(rows, np.log(block + 1.0))

    stub = SimpleNamespace(kind="bihm")
    found = estimate_log_z2(stub, 9, trace=trace, log_terms=Terms()).trace
    assert len(found) == points
    for drawn, value in found:  # the mean of 1, 2, ..., drawn
        assert value == pytest.approx(np.log((drawn + 1) / 2))
    assert not found or found[-1][0] == (9 if trace > 1 else 1)

"""Estimates at a larger K that only some of the examples have."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from bihm_repro.estimators.blocks import run_estimator
from bihm_repro.estimators.effective_sample_size import (
    EffectiveSampleSize,
    EffectiveSampleSizeEstimator,
)
from bihm_repro.estimators.log_likelihood import LogLikelihood
from bihm_repro.estimators.more_samples import two_phase_mean, with_more_samples
from bihm_repro.estimators.partition_function import LogZ2
from bihm_repro.estimators.streaming import standard_error
from bihm_repro.ops.random_stream import random_row_numbers, random_rows


def examples(rng, total=400):
    """Estimates of every example at a small K, and at a larger one, where a few gain much."""
    few = rng.normal(-90, 20, total)
    return few, few + rng.gamma(0.5, 1.0, total) - 0.01 * (few + 90)


def test_with_all_examples_it_is_the_plain_mean():
    few, many = examples(np.random.default_rng(0))
    found = two_phase_mean(few, many, np.arange(400))
    assert found["value"] == pytest.approx(many.mean())
    assert found["standard_error"] == pytest.approx(standard_error(many))
    assert found["examples"] == 400


def test_value_and_error_by_hand():
    few, rows = np.array([0.0, 2.0, 4.0, 6.0]), np.array([1, 3])
    found = two_phase_mean(few, np.array([3.0, 9.0]), rows)
    assert found["value"] == pytest.approx(3 + 2)
    # var few = 20/3, cov of (2, 6) and the gains (1, 3) = 4, var of the gains = 2.
    assert found["standard_error"] == pytest.approx(np.sqrt((20 / 3 + 2 * 4) / 4 + 2 / 2))


def test_one_example_has_no_error():
    assert two_phase_mean(np.array([1.0]), np.array([2.0]), np.array([0]))["standard_error"] == 0


def test_the_standard_error_is_the_spread_over_repetitions():
    rng = np.random.default_rng(1)
    values, errors = [], []
    for _ in range(2000):
        few, many = examples(rng)
        rows = rng.choice(400, 40, replace=False)
        found = two_phase_mean(few, many[rows], rows)
        values.append(found["value"])
        errors.append(found["standard_error"])
    # The spread of 2,000 values has a relative standard error of 1.6%.
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(values), rel=0.06)
    assert abs(np.mean(values) - (-90 + 0.5)) < 4 * np.std(values) / np.sqrt(2000)


def test_the_rows_are_those_that_were_measured():
    x = np.arange(50)[:, None]
    for count in (0, 7, 50, 60):
        assert np.array_equal(random_rows(x, count, 3)[:, 0], random_row_numbers(50, count, 3))


@pytest.mark.parametrize("samples", [100, 1000])
def test_no_estimate_where_k_is_not_larger(samples):
    values = np.zeros(3)
    estimates = {k: LogLikelihood(k, values, values, values) for k in (10, 1000)}
    ess = EffectiveSampleSize(samples, values, values, values, values)
    assert with_more_samples(estimates, ess, np.arange(3)) == {}


def test_the_estimate_with_the_most_samples_is_continued():
    values, rows = np.array([1.0, 3.0, 5.0]), np.array([0, 2])
    estimates = {k: LogLikelihood(k, values + k, values - k, values) for k in (10, 1)}
    ess = EffectiveSampleSize(20, values, values, np.array([12.0, 16.0]), np.array([-8.0, -4.0]))
    found = with_more_samples(estimates, ess, rows, LogZ2(-2.0, 0.1, 100, 1))["20"]
    assert found["log_p"]["value"] == pytest.approx(13 + 1)
    assert found["log_p_tilde_star"]["value"] == pytest.approx(-7 + 1)
    assert found["log_p_star"]["value"] == pytest.approx(-7 + 1 + 2)
    assert found["log_p_star"]["standard_error"] == found["log_p_tilde_star"]["standard_error"]
    assert "log_p_star" not in with_more_samples(estimates, ess, rows)["20"]


def test_smaller_k_use_the_first_samples():
    """Blocks hold 64 samples of an example here, so that 100 and 1,000 end within a block."""
    model = SimpleNamespace(data_dim=2, layers=(2**14,))
    x, samples = np.array([[0.0, 1.0], [1.0, 1.0]]), 2000
    drawn = []

    def log_weights(rows, count, block):
        drawn.append((rows[0, 0], np.random.default_rng(block).normal(-90, 2, (len(rows), count))))
        return drawn[-1][1]

    estimator = EffectiveSampleSizeEstimator(
        model, x, samples, log_weights=log_weights, earlier=[1000, 100, 5000]
    )
    ess = run_estimator(estimator, quiet=True)
    assert [one.samples for one in (*ess.earlier, ess)] == [100, 1000, 2000]
    for number, first in enumerate(x[:, 0]):
        log_r = np.concatenate([block[0] for row, block in drawn if row == first])
        assert log_r.shape == (samples,)
        for one in (*ess.earlier, ess):
            w = np.exp(log_r[: one.samples] + 90)
            assert one.p[number] == pytest.approx(100 * w.sum() ** 2 / (w**2).sum() / one.samples)
            assert one.p_star[number] == pytest.approx(
                100 * np.sqrt(w).sum() ** 2 / w.sum() / one.samples
            )
            assert one.log_p[number] == pytest.approx(np.log(w.mean()) - 90)
            assert one.log_p_tilde_star[number] == pytest.approx(2 * np.log(np.sqrt(w).mean()) - 90)


def test_every_k_of_the_effective_sample_size_is_continued():
    values, rows = np.array([1.0, 3.0, 5.0]), np.array([0, 2])
    estimates = {1000: LogLikelihood(1000, values, values, values)}
    part = np.array([2.0, 6.0])
    earlier = (
        EffectiveSampleSize(100, part, part, part, part),
        EffectiveSampleSize(10_000, part, part, part + 1, part),
    )
    ess = EffectiveSampleSize(100_000, part, part, part + 2, part, earlier)
    found = with_more_samples(estimates, ess, rows)
    assert {k: v["log_p"]["value"] for k, v in found.items()} == {"10000": 5.0, "100000": 6.0}

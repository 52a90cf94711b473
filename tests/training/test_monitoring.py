"""Metrics while training: equal to enumeration, to the estimators, and the same at each call."""

from __future__ import annotations

import numpy as np
import pytest
from exact import ExactModel, random_parameters, states

from bihm_repro.estimators.log_likelihood import estimate_log_likelihood
from bihm_repro.estimators.streaming import LogWeights
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine
from bihm_repro.models.rws import ReweightedWakeSleep
from bihm_repro.ops.numerics import log_mean_exp
from bihm_repro.ops.random_stream import random_rows
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.training.extensions import monitoring
from bihm_repro.training.extensions.monitoring import compile_test_metrics, compile_validation

SIZES = (4, 3, 2)
PARAMETERS = random_parameters(SIZES, seed=3, scale=0.5)


@pytest.fixture(scope="module")
def model():
    model = BidirectionalHelmholtzMachine(SIZES[0], SIZES[1:]).allocate()
    model.set_values(PARAMETERS)
    return model


@pytest.fixture(scope="module")
def exact():
    return ExactModel(PARAMETERS)


def test_validation_meets_enumeration_whatever_the_blocks(model, exact, monkeypatch):
    x, samples = states(4), 500
    monkeypatch.setattr(monitoring, "ROWS_AT_ONCE", 5 * samples)  # four blocks, the last smaller
    validate = compile_validation(model, x, {3, samples}, seed=2)
    found = validate[samples]()
    validate[3]()
    assert found == validate[samples](), "the same random numbers at each call"
    assert found["valid_log_p"] == pytest.approx(exact.log_p(x).mean(), abs=0.02)
    tilde = exact.log_p_tilde_star(x).mean()
    assert found["valid_log_p_tilde_star"] == pytest.approx(tilde, abs=0.02)
    assert found["valid_bound"] == pytest.approx(exact.expected_log_weight(x).mean(), abs=0.03)
    blocks = estimate_log_likelihood(
        model, x, (samples,), log_weights=LogWeights(model, 2), block=(5, samples)
    )
    assert found["valid_log_p"] == blocks[samples].log_p.mean()


def test_test_metrics_have_the_columns_of_the_log(model, exact):
    recipe = Recipe.from_dict(
        {
            "dataset": "x",
            "model": {"layers": [3, 2]},
            "monitor": {"test_samples": [1, 400], "test_examples": 12, "z_samples": 30000},
        }
    )
    x = states(4)
    found = compile_test_metrics(model, x, recipe)()
    assert set(found) == {
        "test_log_p_1",
        "test_log_p_400",
        "test_log_p_tilde_star_1",
        "test_log_p_tilde_star_400",
        "log_z2",
    }
    some = random_rows(x, 12, recipe.seed)
    assert found["test_log_p_400"] == pytest.approx(exact.log_p(some).mean(), abs=0.03)
    assert found["test_log_p_1"] == pytest.approx(found["test_log_p_tilde_star_1"])
    assert found["test_log_p_1"] < found["test_log_p_400"]
    assert found["log_z2"] == pytest.approx(exact.log_z2, abs=0.02)


def test_a_model_without_p_star_has_no_such_metrics():
    model = ReweightedWakeSleep(SIZES[0], SIZES[1:]).allocate()
    model.set_values(PARAMETERS)
    found = compile_validation(model, states(4), {2}, seed=1)[2]()
    assert set(found) == {"valid_log_p", "valid_bound"}


def test_random_rows_are_the_same_for_the_same_seed_sorted_and_not_the_first_ones():
    x = np.arange(100)[:, None]
    one = random_rows(x, 10, seed=3)
    assert len(set(one[:, 0])) == 10 and list(one[:, 0]) == sorted(one[:, 0])
    assert one[:, 0].max() > 50
    np.testing.assert_array_equal(one, random_rows(x, 10, seed=3))
    assert not np.array_equal(one, random_rows(x, 10, seed=4))
    assert len(random_rows(x, 500, seed=3)) == len(random_rows(x, 0, seed=3)) == 100


def test_log_mean_exp_survives_large_values():
    values = np.array([[-1e4, -1e4 + np.log(3.0)], [1e4, 1e4], [-np.inf, -np.inf]])
    np.testing.assert_allclose(log_mean_exp(values), [-1e4 + np.log(2.0), 1e4, -np.inf])

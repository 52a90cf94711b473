"""Durations, and the share of a budget for the evaluation."""

from __future__ import annotations

import pytest
from fake_loop import FakeClock

from bihm_repro.errors import InputError
from bihm_repro.recipes.recipe import EvaluationRecipe
from bihm_repro.training.budget import Budget, fitted_evaluation, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172800)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "ten", "10 m", "5x", "-3m", "0s", "1h30", "m"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(InputError, match="time"):
        parse_duration(text)


def test_a_budget_keeps_a_share_for_the_evaluation():
    clock = FakeClock()
    budget = Budget(100.0, clock)
    assert (budget.for_training, budget.for_evaluation) == (85.0, 100.0)
    clock.now += 95.0
    assert (budget.for_training, budget.for_evaluation) == (0.0, 15.0)
    assert Budget(None).for_training is None and Budget(None).for_evaluation is None


def test_an_evaluation_is_cut_in_examples_first_and_then_in_samples():
    settings = EvaluationRecipe(samples=(1, 10, 100, 1000))
    whole = fitted_evaluation(settings, 10000, 1e9, 60.0)
    assert whole["samples"] == [1, 10, 100, 1000] and whole["examples"] == 0
    assert whole["z_samples"] == 1000000 and whole["ess_examples"] == 1000
    some = fitted_evaluation(settings, 10000, 50000, 60.0)
    assert some["samples"] == [1, 10, 100, 1000] and some["examples"] == 2000
    few = fitted_evaluation(settings, 10000, 5000, 60.0)
    assert few["samples"] == [1, 10, 100] and few["examples"] == 2000
    hurried = fitted_evaluation(settings, 10000, 10, 1.0)
    assert hurried["samples"] == [1] and hurried["examples"] == 500
    small = fitted_evaluation(settings, 100, 1e4, 60.0)
    assert small["samples"][-1] == 1000 and small["examples"] == 0


def test_an_evaluation_that_just_fits_is_not_cut():
    """Two thirds of 150 samples are 10 samples for each of 10 examples."""
    settings = EvaluationRecipe(samples=(1, 10))
    assert fitted_evaluation(settings, 10, 150, 1.0)["samples"] == [1, 10]
    assert fitted_evaluation(settings, 10, 149, 1.0)["samples"] == [1]

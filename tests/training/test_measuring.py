"""Validation, the best model so far and metrics on the test set, with a fake loop."""

from __future__ import annotations

import pytest
from fake_loop import RECIPE, make_loop

from bihm_repro.errors import InputError
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.training.extensions.monitoring import BestSoFar, MetricsOnTestSet, Validation


@pytest.mark.parametrize(
    ("epoch", "record", "measured"),
    [(0, {}, False), (1, {}, True), (2, {}, False), (2, {"phase_stop": "x"}, True)],
)
def test_validation_measures_when_due_and_at_the_end(epoch, record, measured):
    loop = make_loop(epoch=epoch, **record)
    Validation({10: lambda: {"valid_log_p": -2.0}}, 10, every=2).after_epoch(loop)
    assert ("valid_log_p" in loop.log.row) == measured


def test_a_validation_log_p_that_is_not_finite_stops_with_advice():
    loop = make_loop(updates=12, epoch=3)
    with pytest.raises(
        InputError,
        match=r"validation log p is not a finite number by update 12 "
        r"\(phase 0, epoch 4\).*learning_rate=0.1",
    ):
        Validation({10: lambda: {"valid_log_p": float("nan")}}, 10).after_epoch(loop)


@pytest.mark.parametrize(
    ("phase", "updates", "best"), [(0, 0, -9.0), (1, 0, -9.0), (2, 0, -4.0), (2, 3, -9.0)]
)
def test_a_phase_with_its_own_k_measures_the_best_again(phase, updates, best):
    """Phase 2 is measured with K = 50: its first act is to measure where it starts from."""
    content = RECIPE.to_dict()
    content["phases"][2]["valid_samples"] = 50
    loop = make_loop(phase=phase, phase_updates=updates, best_valid=-9.0, best_epoch=4)
    loop.recipe = Recipe.from_dict(content)
    loop.phase = loop.recipe.phases[phase]
    measures = {10: lambda: {"valid_log_p": -8.0}, 50: lambda: {"valid_log_p": -4.0}}
    validation = Validation(measures, 10)
    validation.before_phase(loop)
    assert (loop.log.status.best_valid, loop.log.status.best_epoch) == (best, 4)
    validation.after_epoch(loop)
    assert loop.log.row["valid_log_p"] == (-4.0 if phase == 2 else -8.0)


def test_the_best_epoch_is_marked_and_its_parameters_kept():
    loop, best = make_loop(epoch=4), BestSoFar()
    outcomes = []
    for log_p in (-3.0, -4.0, -3.0, -2.5, None):
        loop.log.row = {"epoch": loop.log.status.epoch + 1}
        if log_p is not None:
            loop.log.row["valid_log_p"] = log_p
        best.after_epoch(loop)
        outcomes.append(loop.log.row.get("best"))
        loop.log.status.epoch += 1
    assert outcomes == [True, False, False, True, None]
    assert (loop.log.status.best_valid, loop.log.status.best_epoch) == (-2.5, 8)
    assert set(loop.best) == {"w"}


def test_test_metrics_come_every_so_many_epochs_without_what_is_not_finite():
    extension = MetricsOnTestSet(lambda: {"test_log_p_1": -1.0, "log_z2": float("-inf")}, every=3)
    for epoch, wanted in ((0, {}), (2, {"test_log_p_1": -1.0})):
        loop = make_loop(epoch=epoch)
        extension.after_epoch(loop)
        assert {k: v for k, v in loop.log.row.items() if k != "epoch"} == wanted

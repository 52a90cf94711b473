"""Time budgets: kept, with phases skipped that do not pay, and resumed as if there had been none.

The main loop is the real one; model, updates and clock are not, so that an update takes a second.
"""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.checkpoint import divided
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.log_file import log_columns
from bihm_repro.training.extensions import Extension
from bihm_repro.training.extensions.monitoring import BestSoFar
from bihm_repro.training.extensions.saving import Checkpoints, CsvLog
from bihm_repro.training.extensions.stopping import EpochLimit
from bihm_repro.training.extensions.time_budget import SkippedPhases, TimeBudget, shares
from bihm_repro.training.log import TrainingLog
from bihm_repro.training.main_loop import MainLoop

COMPILATION, MEASURING = 5.0, 2.0


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Model:
    kind, layers, data_dim = "bihm", [1], 3

    def __init__(self):
        self.value = np.zeros(3, np.float32)

    def get_values(self):
        return {"w": self.value.copy()}

    def set_values(self, values):
        self.value = np.array(values["w"])


class Update:
    averages: dict = {}
    group_size = 1
    learning_rate = 0.0

    def __init__(self, model, counter, clock):
        self.model, self.counter, self.clock, self.count = model, counter, clock, 0

    def steps(self, batches):
        for x in batches:
            self.count += 1
            self.counter += 1
            self.clock.now += 1.0
            self.model.value += np.float32(self.learning_rate * (x.sum() + self.count))
        return [{"log_p": -float(x.sum())} for x in batches]

    def get_state(self):
        return {"count": np.array(self.count)}

    def set_state(self, values):
        self.count = int(values["count"])


class Stream:
    def epoch(self, epoch, start=0):
        for batch in range(start, 10):
            yield np.full((2, 1), epoch + batch / 10)


class Measure(Extension):
    def __init__(self, clock):
        self.clock = clock

    def after_epoch(self, loop):
        self.clock.now += MEASURING
        loop.log.row["valid_log_p"] = float(loop.model.value.sum())


def make_recipe(*epochs):
    return Recipe.from_dict(
        {
            "dataset": "none",
            "model": {"layers": [1]},
            "phases": [
                {
                    "samples": 1,
                    "learning_rate": 1.0 / (index + 1),
                    "max_epochs": count,
                    "patience": 99,
                }
                for index, count in enumerate(epochs)
            ],
            "training": {"batch_size": 2},
        }
    )


def train(folder, recipe, seconds=None):
    """Train, or resume what is in ``folder``; returns the log, the clock, the lines and the end."""
    clock, model, lines = Clock(), Model(), []
    budget = [] if seconds is None else [TimeBudget(seconds, clock=clock)]

    def compiled(phase, counter):
        clock.now += COMPILATION
        return Update(model, counter, clock)

    run = RunDirectory(folder)
    run.claim(recipe)
    saving = Checkpoints(
        run, 4.0, {"engine": "", "data_fingerprint": "f"}, clock, self_contained=bool(budget)
    )
    loop = MainLoop(
        model,
        recipe,
        compiled,
        lambda phase: Stream(),
        [
            EpochLimit(),
            Measure(clock),
            BestSoFar(),
            *budget,
            CsvLog(run, log_columns(recipe)),
            saving,
            *(SkippedPhases(item, lines.append) for item in budget),
        ],
    )
    state = run.read_state(model.get_values())
    if state is not None:
        loop.resume(TrainingLog.from_record(state.record), divided(state.arrays))
    return loop.run(), clock, lines, model.value


def without_seconds(run):
    return run.read_log().drop(columns="seconds")


def test_shares_fall_to_a_third_and_sum_to_one():
    assert shares(3) == pytest.approx([9 / 13, 3 / 13, 1 / 13])
    assert sum(shares(7)) == pytest.approx(1.0)


def test_a_budget_is_kept_and_every_affordable_phase_gets_its_share(tmp_path):
    log, clock, lines, _ = train(tmp_path / "run", make_recipe(99, 99), 200.0)
    assert 190.0 <= clock.now <= 202.0 and not lines
    phases = [row["phase"] for row in log.rows]
    assert set(phases) == {0, 1} and phases.count(0) > 2 * phases.count(1)
    status = RunDirectory(tmp_path / "run").read_status()
    assert status["cut_by_budget"] and not status["finished"]


def test_phases_that_do_not_pay_are_skipped_and_said_to_be(tmp_path):
    log, clock, lines, _ = train(tmp_path / "run", make_recipe(4, 99, 99, 99), 260.0)
    assert [line.split(":")[0] for line in lines] == ["phase 2 of 4 is skipped"]
    assert {row["phase"] for row in log.rows} == {0, 2, 3} and clock.now <= 262.0
    # Too short for anything but the first phase, which then gets all of it.
    log, clock, lines, _ = train(tmp_path / "short", make_recipe(99, 99, 99), 40.0)
    assert {row["phase"] for row in log.rows} == {0} and 30.0 <= clock.now <= 42.0
    assert log.pause == "the time budget is used up, phases 2 to 3 are skipped"


def test_a_budget_that_nothing_fits_still_ends_with_a_measured_model(tmp_path):
    log, clock, _, _ = train(tmp_path / "run", make_recipe(99), 1.0)
    assert log.status.updates == 1 and len(log.rows) == 1
    assert RunDirectory(tmp_path / "run").read_model().fingerprint


@pytest.mark.parametrize(
    ("epochs", "seconds"),
    [((6, 3, 4), 40.0), ((6, 3, 4), 90.0), ((2, 3, 4), 95.0), ((3, 9), 88.0), ((6,), 31.0)],
)
def test_a_schedule_cut_by_a_budget_resumes_where_the_uncut_one_would_be(tmp_path, epochs, seconds):
    recipe = make_recipe(*epochs)
    whole_log, _, _, expected = train(tmp_path / "whole", recipe)
    whole, cut = RunDirectory(tmp_path / "whole"), RunDirectory(tmp_path / "cut")
    log, _, _, _ = train(cut.path, recipe, seconds)
    assert log.off_schedule and not cut.read_status()["finished"]
    state = cut.read_state().record["status"]
    assert not state["cut_by_budget"] and not state["phase_stop"]
    assert state["updates"] < whole_log.status.updates
    again, _, _, _ = train(cut.path, recipe, 45.0)  # a second budget, from there
    resumed, _, _, found = train(cut.path, recipe)
    assert resumed.status.finished and not cut.has_state
    np.testing.assert_array_equal(found, expected)
    assert without_seconds(cut).equals(without_seconds(whole))
    assert cut.read_model().fingerprint == whole.read_model().fingerprint


def test_a_schedule_that_fits_its_budget_is_finished(tmp_path):
    log, clock, lines, _ = train(tmp_path / "run", make_recipe(2, 2), 500.0)
    run = RunDirectory(tmp_path / "run")
    assert log.status.finished and not log.off_schedule and not lines
    assert run.read_status()["finished"] and not run.has_state and clock.now < 80.0


def test_time_for_compiling_the_evaluation_is_kept():
    clock = Clock()
    budget = TimeBudget(100.0, clock=clock)
    clock.now = 12.0
    budget.before_training(None)
    assert budget.left == 100.0 - 2 * 12.0


def test_measuring_is_estimated_from_the_updates_before_it_is_known():
    clock = Clock()
    budget = TimeBudget(1000.0, valid_rows=50, clock=clock)

    class Loop:
        recipe = make_recipe(9)
        phase = recipe.phases[0]

        class log:
            class status:
                phase, updates = 0, 0

    loop = Loop()
    budget.before_training(loop)
    budget.before_phase(loop)
    loop.log.status.updates, clock.now = 4, 8.0
    budget.after_batch(loop)
    # 1 s a sample (2 s an update of two rows), 50 rows of 10 samples, half as dear.
    assert budget.measuring(loop) == pytest.approx(1.0 * 50 * 10 / 2)
    clock.now = 11.0
    budget.between_epochs(loop)
    assert budget.measuring(loop) == 3.0

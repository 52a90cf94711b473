"""Extensions with a fake loop and a tiny log: nothing is trained here."""

from __future__ import annotations

import errno
import io
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest

from bihm_repro.errors import InputError, SetupError
from bihm_repro.recipes.recipe import EvaluationRecipe, Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.log_file import log_columns
from bihm_repro.runs.record import Status
from bihm_repro.training.budget import Budget, fitted_evaluation, parse_duration
from bihm_repro.training.extensions import display
from bihm_repro.training.extensions.monitoring import BestSoFar, MetricsOnTestSet, Validation
from bihm_repro.training.extensions.saving import Checkpoints, CsvLog
from bihm_repro.training.extensions.stopping import (
    EpochLimit,
    FiniteMetrics,
    Interruption,
    Patience,
    PauseAfter,
)
from bihm_repro.training.log import TrainingLog

RECIPE = Recipe.from_dict(
    {
        "dataset": "bars",
        "model": {"layers": [2]},
        "phases": [
            {"samples": 5, "patience": 3, "max_epochs": 20, "learning_rate": 0.3},
            {"samples": 7},
            {"samples": 9},
        ],
    }
)


class FakeClock:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def make_loop(rows=(), **status):
    """A loop that only has what extensions look at."""
    values = {"w": np.zeros(2, np.float32)}
    model = SimpleNamespace(kind="bihm", layers=[2], data_dim=3, get_values=lambda: dict(values))
    log = TrainingLog(Status(**status), list(rows))
    log.row = {"epoch": log.status.epoch + 1}
    update = SimpleNamespace(counter=11, get_state=lambda: {"count": np.array(4)})
    return SimpleNamespace(
        model=model,
        recipe=RECIPE,
        log=log,
        best=None,
        update=update,
        phase=RECIPE.phases[log.status.phase],
        seconds=1.5,
    )


# -- monitoring -----------------------------------------------------------------------------------


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


# -- stopping -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "stops"),
    [({"epoch": 18}, False), ({"epoch": 19}, True), ({"epoch": 25, "phase_start": 10}, False)],
)
def test_the_epoch_limit_counts_the_epochs_of_the_phase(status, stops):
    loop = make_loop(**status)
    EpochLimit().after_epoch(loop)
    assert loop.log.status.phase_stop == ("20 epochs" if stops else "")


@pytest.mark.parametrize(
    ("status", "stops"),
    [
        ({"epoch": 9, "best_epoch": 8}, False),
        ({"epoch": 9, "best_epoch": 7}, True),
        ({"epoch": 9, "best_epoch": 2, "phase_start": 8}, False),
        ({"epoch": 10, "best_epoch": 2, "phase_start": 8}, True),
    ],
)
def test_patience_counts_from_the_best_epoch_of_the_phase(status, stops):
    loop = make_loop(**status)
    Patience().after_epoch(loop)
    assert loop.log.status.phase_stop == ""  # nothing was measured
    loop.log.row["valid_log_p"] = -3.0
    Patience().after_epoch(loop)
    assert loop.log.status.phase_stop == ("no better validation log p in 3 epochs" if stops else "")


def test_the_first_reason_to_stop_is_kept():
    log = TrainingLog()
    log.stop_phase("one")
    log.stop_phase("two")
    assert log.status.phase_stop == "one"


def test_pause_after_leaves_the_epoch_as_it_is():
    clock = FakeClock()
    extension, loop = PauseAfter(10.0, clock), make_loop()
    extension.after_batch(loop)
    assert not loop.log.pause
    clock.now += 10
    extension.after_batch(loop)
    assert loop.log.pause and not loop.log.measure_first


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "asked to end")]
)
def test_a_signal_becomes_a_pause_and_handlers_come_back(number, said):
    before = signal.getsignal(number)
    extension, loop = Interruption(), make_loop()
    extension.before_training(loop)
    try:
        extension.after_batch(loop)
        assert not loop.log.pause
        os.kill(os.getpid(), number)
        extension.between_epochs(loop)
        assert loop.log.pause == said
        if number == signal.SIGINT:
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
    finally:
        extension.close(loop)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_a_bad_update_is_named_with_what_is_kept(bad):
    loop = make_loop(updates=41, epoch=2, best_epoch=2, sums={"log_p": bad})
    loop.best = {}
    with pytest.raises(
        InputError,
        match="training log-likelihood is not a finite number by "
        "update 41.*last good state.*clip_norm",
    ):
        FiniteMetrics().after_batch(loop)
    FiniteMetrics().after_batch(make_loop(sums={"log_p": -1e30}))


# -- saving ---------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    folder = RunDirectory(tmp_path / "run")
    folder.claim(RECIPE)
    return folder


def checkpoints(run, clock, seconds=100.0):
    return Checkpoints(run, seconds, {"engine": "none", "data_fingerprint": "f"}, clock)


def test_checkpoints_come_by_time_and_at_epoch_ends(run):
    clock = FakeClock()
    extension, loop = checkpoints(run, clock), make_loop(updates=1)
    for step, saved in ((99.0, False), (1.0, True), (50.0, False)):
        run.file("state.npz").unlink(missing_ok=True)
        clock.now += step
        extension.after_batch(loop)
        assert run.file("state.npz").exists() == saved
    extension.between_epochs(loop)
    assert run.file("state.npz").exists()
    run.file("state.npz").unlink()
    clock.now += 1.0
    extension.between_epochs(loop)
    assert not run.file("state.npz").exists()


def test_no_checkpoint_between_a_phases_end_and_its_measuring(run):
    clock = FakeClock()
    extension, loop = checkpoints(run, clock), make_loop(phase_stop="budget")
    clock.now += 1000
    extension.after_batch(loop)
    assert not run.file("state.npz").exists()


def test_a_checkpoint_brings_status_and_best_model(run):
    extension, loop = checkpoints(run, FakeClock()), make_loop(updates=7, epoch=2)
    extension.save(loop)
    assert not run.file("model.npz").exists()
    loop.best, loop.log.status.best_epoch = {"w": np.ones(3, np.float32)}, 2
    loop.log.status.best_valid = -1.25
    extension.save(loop)
    assert run.read_model()["w"].tolist() == [1.0, 1.0, 1.0]
    assert run.read_model().meta["recipe_fingerprint"] == RECIPE.fingerprint()
    status = run.read_status()
    assert status["best_valid"] == -1.25 and status["updates"] == 7 and not status["finished"]
    assert {
        "phase",
        "phases",
        "epochs",
        "seconds",
        "engine",
        "data_fingerprint",
        "commit",
        "version",
        "recipe_fingerprint",
        "best_epoch",
    } <= set(status)
    record = run.read_state().record
    assert record["data_fingerprint"] == "f" and record["status"]["draw"] == 11


def test_a_full_disk_keeps_the_last_checkpoint(run, monkeypatch):
    extension, loop = checkpoints(run, FakeClock()), make_loop(updates=7)
    extension.save(loop)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    loop.log.status.updates = 8
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(OSError, match="No space left"):
            extension.save(loop)
    assert run.read_state().record["status"]["updates"] == 7


def test_the_csv_log_is_mended_on_resumption(run):
    columns = log_columns(RECIPE)
    run.write_log(columns, [{"epoch": 1}, {"epoch": 2}])
    with open(run.file("log.csv"), "a") as handle:
        handle.write("0,3,ha")
    loop = make_loop(rows=[{"epoch": 1}])
    extension = CsvLog(run, columns)
    extension.before_training(loop)
    assert list(run.read_log()["epoch"]) == [1]
    loop.log.rows.append({"epoch": 2})
    extension.between_epochs(loop)
    assert list(run.read_log()["epoch"]) == [1, 2]


# -- display and budgets --------------------------------------------------------------------------


def test_lines_are_rare_but_the_last_of_a_phase_is_there():
    clock, stream = FakeClock(), io.StringIO()
    lines = display.ProgressLines(5.0, stream, clock)
    rows = [{"train_log_p": -2.5, "valid_log_p": -3.25}]
    loop = make_loop(rows, epoch=1, updates=20, best_valid=-3.0, best_epoch=1)
    lines.before_phase(loop)
    clock.now += 2
    lines.between_epochs(loop)
    clock.now += 2
    lines.between_epochs(loop)
    loop.log.status.phase_stop = "enough"
    lines.between_epochs(loop)
    lines.after_phase(loop)
    said = stream.getvalue().splitlines()
    assert said[0] == "phase 1 of 3: K = 5, learning rate 0.3"
    assert said[1] == (
        "epoch 1, 20 updates, 0.0/s, 0:00:01: train 2.500, valid 3.250, "
        "best 3.000 (epoch 1, patience 0/3)"
    )
    assert len(said) == 4 and said[3] == "phase 1 over: enough"


def test_a_phase_that_goes_on_says_from_which_update_of_the_run():
    stream = io.StringIO()
    lines = display.ProgressLines(5.0, stream)
    lines.before_phase(make_loop(phase=1, updates=120, phase_updates=20))
    assert stream.getvalue().startswith("phase 2 of 3: ")
    assert stream.getvalue().endswith(", from update 120\n")


def test_the_bar_moves_by_the_batches_done_since_it_moved_last(monkeypatch):
    moves = []
    bar = SimpleNamespace(update=moves.append, set_postfix_str=lambda text: None)
    monkeypatch.setattr(display, "progress", lambda **options: bar)
    size = RECIPE.training.batch_size
    extension, loop = display.ProgressBar(50 * size), make_loop(batch=4)
    extension.before_epoch(loop)
    for batch in (5, 21, 22):
        loop.log.status.batch = batch
        extension.after_batch(loop)
    assert moves == [4, 1, 16, 1]


def test_tensorboard_gets_every_metric_or_says_what_is_missing(monkeypatch, tmp_path):
    written = []
    writer = SimpleNamespace(add_scalar=lambda *args: written.append(args), close=lambda: None)
    fake = SimpleNamespace(SummaryWriter=lambda folder: writer)
    monkeypatch.setattr(display.importlib, "import_module", lambda name: fake)
    loop = make_loop([{"epoch": 1, "updates": 20, "valid_log_p": -3.0}])
    display.TensorBoard(str(tmp_path)).between_epochs(loop)
    assert written == [("valid_log_p", -3.0, 20)]

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(display.importlib, "import_module", missing)
    with pytest.raises(SetupError, match="pip install tensorboardX"):
        display.TensorBoard(str(tmp_path))


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

"""Checkpoints and the log file, with a fake loop."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest
from fake_loop import RECIPE, FakeClock, make_loop

from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.log_file import log_columns
from bihm_repro.training.extensions.saving import Checkpoints, CsvLog


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

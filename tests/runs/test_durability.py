"""What a kill, at whatever moment, leaves of a run folder; and what is flushed to the disk when."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bihm_repro.errors import InputError
from bihm_repro.files import sweep_temporaries, write_text
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.arrays import fingerprint_of
from bihm_repro.runs.layout import RUN_FILES, RunDirectory
from bihm_repro.runs.record import Status
from bihm_repro.training.extensions.saving import Checkpoints
from bihm_repro.training.log import TrainingLog

RECIPE = Recipe.from_dict({"dataset": "bars", "model": {"layers": [2]}})


class Kill(BaseException):
    """Ends the process, in these tests."""


@pytest.fixture
def run(tmp_path):
    folder = RunDirectory(tmp_path / "results" / "toy")
    folder.claim(RECIPE)
    return folder


def make_loop():
    values = {"w": np.zeros(3, np.float32)}
    model = SimpleNamespace(kind="bihm", layers=[2], data_dim=3, get_values=lambda: dict(values))
    update = SimpleNamespace(counter=0, get_state=lambda: {"count": np.array(4)})
    return SimpleNamespace(
        model=model,
        recipe=RECIPE,
        log=TrainingLog(Status()),
        best=None,
        update=update,
        phase=RECIPE.phases[0],
        seconds=1.5,
    )


def train(run, kill_at=None, monkeypatch=None):
    """Save eight times, with a new best model now and then; die at some file operation."""
    calls = [0]

    def counted(original):
        def operation(*args, **kwargs):
            calls[0] += 1
            if calls[0] == kill_at:
                raise Kill
            return original(*args, **kwargs)

        return operation

    for name in ("replace", "fsync"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    loop, extension = make_loop(), Checkpoints(run, 0.0, {"data_fingerprint": "f", "engine": "e"})
    for step in range(8):
        if step in (1, 2, 5):
            loop.best = {"w": np.full(3, step, np.float32)}
            loop.log.status.best_epoch = step
        loop.log.status.updates = step
        extension.save(loop)
    return calls[0]


def expected_best(updates):
    best = max((step for step in (1, 2, 5) if step <= updates), default=None)
    return None if best is None else [best] * 3


@pytest.mark.parametrize("damaged", [False, True], ids=["killed", "killed and damaged"])
def test_after_a_kill_at_any_operation_a_state_finds_its_own_best_model(run, monkeypatch, damaged):
    kills = 0
    for kill_at in range(1, 200):
        for name in RUN_FILES[1:]:
            run.file(name).unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            try:
                train(run, kill_at, patch)
            except Kill:
                kills += 1
            else:
                break
        if damaged and run.file("state.previous.npz").exists():
            run.file("state.npz").write_bytes(b"damaged")
        state = run.read_state()
        if state is not None:
            best = state.arrays.get("best/w")
            assert (None if best is None else best.tolist()) == expected_best(
                state.record["status"]["updates"]
            ), kill_at
    assert kills > 40


def test_a_state_does_not_repeat_the_best_parameters(run, monkeypatch):
    with monkeypatch.context() as patch:
        train(run, None, patch)
    with np.load(run.file("state.npz")) as content:
        assert sorted(content.files) == ["parameter/w", "record", "rule/count"]
    state = run.read_state()
    assert state.record["best"] == run.read_model().fingerprint
    assert state.arrays["best/w"].tolist() == [5, 5, 5]


def test_a_state_of_the_first_release_with_its_best_parameters_is_read(run):
    best = {"w": np.full(3, 7, np.float32)}
    run.write_state(
        {"parameter/w": np.zeros(3, np.float32), "best/w": best["w"]},
        {"status": {}, "rows": [], "data_fingerprint": "f"},
    )
    assert run.read_state().arrays["best/w"].tolist() == [7, 7, 7]
    loop = make_loop()
    loop.best = best
    Checkpoints(run, 0.0, {"data_fingerprint": "f"}).before_training(loop)
    assert run.read_model().fingerprint == fingerprint_of(best)


def test_resuming_puts_the_best_model_of_the_state_back(run):
    extension, loop = Checkpoints(run, 0.0, {"data_fingerprint": "f"}), make_loop()
    loop.best = {"w": np.full(3, 1, np.float32)}
    extension.save(loop)
    run.write_model({"w": np.full(3, 2, np.float32)}, {}, keep=True)  # killed before its state
    assert run.read_state().arrays["best/w"].tolist() == [1, 1, 1]
    Checkpoints(run, 0.0, {"data_fingerprint": "f"}).before_training(loop)
    assert run.read_model()["w"].tolist() == [1, 1, 1]


# -- a finished run -------------------------------------------------------------------------------


def finished(run):
    rows = [{"phase": 0, "epoch": 1, "valid_log_p": -2.5, "best": True}]
    run.write_state(
        {"parameter/w": np.ones(2)},
        {"status": {"finished": True, "epoch": 1}, "rows": rows, "data_fingerprint": "f"},
    )
    run.write_status({"finished": True, "updates": 3})


def test_the_state_of_a_finished_run_is_removed_at_the_next_start(run):
    finished(run)
    run.file("log.csv").write_text("phase,epoch\n0")  # what the disk had of it
    run.repair()
    assert not run.has_state and run.read_log()["valid_log_p"].tolist() == [-2.5]
    run.repair()


def test_a_damaged_state_of_a_finished_run_is_removed_too(run):
    finished(run)
    run.file("log.csv").write_text("phase,epoch\n0,1\n")
    run.file("state.npz").write_bytes(b"damaged")
    run.repair()
    assert not run.has_state and run.read_log()["epoch"].tolist() == [1]


def test_the_state_of_an_unfinished_run_stays(run):
    finished(run)
    run.write_status({"finished": False})
    run.repair()
    assert run.has_state


def test_the_log_is_on_the_disk_before_the_state_goes(run, monkeypatch):
    finished(run)
    run.file("log.csv").write_text("phase\n0\n")
    events = watch(monkeypatch)
    run.remove_state()
    removed = events.index(("unlink", "state.npz"))
    assert ("fsync", "log.csv") in events[:removed] and ("fsync", "toy") in events[removed:]


def watch(monkeypatch):
    """Record what is flushed, renamed and removed, by name."""
    events = []
    fsync, replace, unlink = os.fsync, os.replace, Path.unlink

    def name_of(handle):
        name = os.path.basename(os.readlink(f"/proc/self/fd/{handle}"))
        events.append(("fsync", name))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", name_of)
    monkeypatch.setattr(
        os,
        "replace",
        lambda source, target: (
            events.append(("replace", Path(target).name)),
            replace(source, target),
        ),
    )
    monkeypatch.setattr(
        Path,
        "unlink",
        lambda path, missing_ok=False: (
            events.append(("unlink", path.name)),
            unlink(path, missing_ok=missing_ok),
        ),
    )
    return events


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_written_file_and_its_name_are_flushed_in_this_order(run, monkeypatch):
    events = watch(monkeypatch)
    write_text(run.file("status.json"), "{}")
    kinds = [kind for kind, _ in events if kind != "unlink"]
    assert kinds == ["fsync", "replace", "fsync"]
    assert events[1] == ("replace", "status.json") and events[2] == ("fsync", "toy")


def test_temporary_files_of_killed_processes_are_removed(run):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead = [
        run.file(f".model.{process.pid}-0123abcd.npz"),
        run.file(f".state.previous.{process.pid}-0123abcd.npz"),
    ]
    kept = [
        run.file(f".state.{os.getpid()}-0123abcd.npz"),
        run.file(".lock"),
        run.file(".mine.txt"),
        run.file(f"model.{process.pid}-0123abcd.npz"),
    ]
    for path in (*dead, *kept):
        path.write_bytes(b"x")
    sweep_temporaries(run.path)
    assert not any(path.exists() for path in dead) and all(path.exists() for path in kept)


# -- restarting -----------------------------------------------------------------------------------


def test_a_restart_killed_at_its_rename_leaves_all_of_the_old_run(run, monkeypatch):
    run.write_state({}, {"status": {}, "rows": []})

    def kill(*args):
        raise Kill

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", kill)
        with pytest.raises(Kill):
            run.move_aside()
    assert {"recipe.toml", "state.npz"} <= {path.name for path in run.path.iterdir()}
    moved = run.move_aside()
    assert {"recipe.toml", "state.npz"} <= {path.name for path in moved.iterdir()}
    assert not run.path.exists()


@pytest.mark.parametrize("name", RUN_FILES[1:])
def test_any_file_of_a_run_without_its_recipe_is_not_continued(run, name):
    run.file("recipe.toml").unlink()
    run.file(name).write_bytes(b"x")
    assert run.exists
    with pytest.raises(InputError, match="holds files of a run but no recipe.toml.*--fresh"):
        run.claim(RECIPE)
    assert run.move_aside() is not None and not run.exists


def test_a_recipe_that_does_not_survive_its_text_is_refused_before_training(run, monkeypatch):
    monkeypatch.setattr(Recipe, "to_toml", lambda self: 'dataset = "other"\n[model]\nlayers = [1]')
    with pytest.raises(InputError, match="cannot be written as TOML and read back"):
        run.claim(RECIPE)


def test_the_lock_of_a_folder_that_was_replaced_is_not_taken(run, monkeypatch):
    run.file(".lock").write_text("77")
    monkeypatch.setattr(os.path, "samestat", lambda one, other: False)
    with pytest.raises(InputError, match="process 77 is working"), run.lock():
        pass


def test_the_lock_of_a_folder_that_was_removed_is_not_taken(run, monkeypatch):
    flock = fcntl.flock

    def removed(handle, flags):
        flock(handle, flags)
        run.file(".lock").unlink()

    monkeypatch.setattr(fcntl, "flock", removed)
    with pytest.raises(InputError, match="process unknown is working"), run.lock():
        pass

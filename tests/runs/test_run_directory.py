"""The run folder: layout, locks, and the refusal to mix two recipes."""

from __future__ import annotations

import dataclasses
import errno
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bihm_repro.errors import InputError
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory, run_name
from bihm_repro.runs.log_file import log_columns
from bihm_repro.runs.resume import place


def make_recipe(*overrides):
    return Recipe.from_dict({"dataset": "bars", "model": {"layers": [4, 2]}}, "r.toml", overrides)


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "results" / "toy")


def test_a_folder_without_a_run_says_how_to_make_one(run):
    assert not run.exists and run.read_status() == {} and run.read_evaluation() is None
    with pytest.raises(InputError, match="is not a run folder.*bihm train RECIPE"):
        _ = run.recipe
    with pytest.raises(InputError, match="model.npz: is missing"):
        run.read_model()
    assert not run.path.exists()


def test_claiming_freezes_the_recipe_and_refuses_another(run):
    run.claim(make_recipe())
    assert run.recipe == make_recipe()
    run.claim(make_recipe("title=other", "evaluation.z_samples=5"))
    assert run.recipe.evaluation.z_samples == 5
    with pytest.raises(
        InputError,
        match=r"toy: holds a run of another recipe \(seed: 0, not 3\); "
        r"choose another folder with --out, or .*--fresh",
    ):
        run.claim(make_recipe("seed=3"))
    assert run.recipe.seed == 0


def stand(run, **status):
    """Let the run stand somewhere, by its state; status.json is as it was before training."""
    run.write_state(
        {},
        {
            "status": {
                "phase": 0,
                "phase_start": 0,
                "epoch": 6,
                "phase_stop": "",
                "phase_updates": 9,
                "finished": False,
                **status,
            }
        },
    )


def refusal(run, *overrides, extend=True):
    with pytest.raises(InputError) as refused:
        run.claim(make_recipe(*overrides), extend)
    return str(refused.value)


def test_an_unfinished_run_is_extended_in_what_lies_ahead(run):
    run.claim(make_recipe())
    stand(run)
    ahead = ("phases.0.max_epochs=7", "phases.0.patience=13", "phases.1.samples=20")
    assert "by --extend" in refusal(run, *ahead, extend=False)
    assert "--extend" not in refusal(run, *ahead, extend=None)
    assert "--extend" not in refusal(run, *ahead, "seed=1", extend=False)
    run.claim(make_recipe(*ahead), extend=True)
    assert run.recipe == make_recipe(*ahead)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("phases.0.samples=11", "phases.0.samples: 10, not 11"),
        ("seed=1", "seed: 0, not 1"),
        ("phases.0.max_epochs=6", "phases.0.max_epochs: 10000, not 6"),
        ("phases.0.patience=9", "phases.0.patience: 10, not 9"),
        ("phases.0.average_over=50", "phases.0.average_over: None, not 50"),
    ],
)
def test_what_was_trained_is_not_contradicted(run, change, line):
    run.claim(make_recipe())
    stand(run)
    said = refusal(run, change, "phases.1.samples=20")
    assert (
        f"({line}); --extend changes only what is not trained yet, and the run is in "
        "phases.0, 6 epochs into it"
    ) in said
    assert run.recipe == make_recipe()


def test_a_phase_that_is_over_and_a_finished_run_stay_as_they_are(run):
    run.claim(make_recipe())
    stand(run, phase_stop="10 epochs")
    assert "the run is at the end of phases.0" in refusal(run, "phases.0.max_epochs=50")
    stand(run, phase=1, phase_start=4)
    assert "(phases.0.max_epochs: 10000, not 50)" in refusal(run, "phases.0.max_epochs=50")
    assert "2 epochs into it" in refusal(run, "phases.1.max_epochs=2")
    stand(run, finished=True)
    assert "the run is finished" in refusal(run, "phases.0.max_epochs=50")


def test_a_finished_run_may_get_further_phases_and_nothing_else(run):
    run.claim(make_recipe("phases=[{samples=10}]"))
    stand(run, finished=True)
    assert "phases.0.patience: 10, not 20" in refusal(run, "phases=[{patience=20},{samples=20}]")
    run.claim(make_recipe("phases=[{samples=10},{samples=20}]"), extend=True)
    assert len(run.recipe.phases) == 2
    stand(run, phase=1, finished=True)
    assert "number of phases: 2, not 1" in refusal(run, "phases=[{samples=10}]")


def test_a_phase_without_an_update_lies_ahead(run):
    run.claim(make_recipe())
    stand(run, phase=1, phase_start=6)
    assert "(phases.1.samples: 100, not 7)" in refusal(run, "phases.1.samples=7")
    stand(run, phase=1, phase_start=6, phase_updates=0)
    run.claim(make_recipe("phases.1.samples=7"), extend=True)
    assert run.recipe.phases[1].samples == 7


def test_phases_are_added_and_taken_away_only_ahead(run):
    run.claim(make_recipe())
    longer, shorter = make_recipe().to_dict(), make_recipe().to_dict()
    longer["phases"].append({"samples": 7})
    del shorter["phases"][1]
    longer, shorter = Recipe.from_dict(longer), Recipe.from_dict(shorter)
    stand(run)
    for recipe in (longer, shorter, longer):
        run.claim(recipe, extend=True)
        assert run.recipe == recipe
    stand(run, phase=1, phase_start=4)
    with pytest.raises(InputError, match=r"\(number of phases: 3, not 1\)"):
        run.claim(shorter, extend=True)
    with pytest.raises(InputError, match="number of phases: 3, not 0"):
        run.claim(dataclasses.replace(longer, phases=()), extend=True)


def test_the_model_comes_back_with_its_meta_and_a_fingerprint_of_its_values(run):
    values = {"p0.W": np.ones((2, 3), np.float32), "p0.b": np.zeros(3, np.float32)}
    run.write_model(values, {"kind": "bihm", "layers": [2]})
    back = run.read_model()
    assert set(back) == set(values) and back["p0.W"].dtype == np.float32
    assert back.meta == {"kind": "bihm", "layers": [2]}
    values["p0.b"][1] = 1e-30
    run.write_model(values, {})
    assert run.read_model().fingerprint != back.fingerprint


def test_log_rows_keep_every_digit_and_leave_gaps_empty(run):
    recipe = make_recipe("monitor.test_samples=[1, 50]")
    columns = log_columns(recipe)
    assert columns[-6:] == [
        "test_log_p_1",
        "test_log_p_50",
        "test_log_p_tilde_star_1",
        "test_log_p_tilde_star_50",
        "log_z2",
        "active_units",
    ]
    row = {"phase": 0, "epoch": 1, "train_log_p": -1 / 3, "best": True, "active_units": "245 9"}
    run.write_log(columns, [row])
    hard = -46.673444542485555  # pandas' ordinary parser is off by the last bit
    run.append_to_log(columns, {**row, "epoch": 2, "best": False, "train_log_p": hard})
    log = run.read_log()
    assert list(log.columns) == columns and len(log) == 2
    assert list(log["train_log_p"]) == [-1 / 3, hard] and list(log["best"]) == [1, 0]
    assert math.isnan(log["log_z2"][1]) and log["active_units"][0] == "245 9"


def test_damaged_json_is_named(run):
    run.claim(make_recipe())
    run.file("status.json").write_text("{")
    with pytest.raises(InputError, match="status.json: is not valid JSON"):
        run.read_status()


HOLDER = """
import sys, time
from bihm_repro.runs.layout import RunDirectory, run_name
with RunDirectory(sys.argv[1]).lock():
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_turned_away_and_a_dead_one_holds_nothing(run):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(run.path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "held\n"
        with (
            pytest.raises(
                InputError,
                match=f"process {process.pid} is working on this run folder; wait until it ends",
            ),
            run.lock(),
        ):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with run.lock():
        assert run.file(".lock").read_text() == str(os.getpid())


def test_a_read_only_folder_is_named(run, monkeypatch):
    def refuse(path, *args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    run.claim(make_recipe())
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(OSError, match="Read-only file system.*toy/.lock"), run.lock():
        pass


def test_moving_aside_keeps_everything(run):
    assert run.move_aside() is None
    for number in (1, 2):
        run.claim(make_recipe(f"seed={number}"))
        moved = run.move_aside()
        assert moved == run.path.parent / ".replaced" / f"toy-{number}"
        assert RunDirectory(moved).recipe.seed == number
        assert not run.exists


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("run_exps/mnist.toml", "mnist"),
        ("run_exps/rws/mnist.toml", "rws-mnist"),
        ("/a/run_exps/ablation/mnist-3layers.toml", "ablation-mnist-3layers"),
        ("elsewhere/mine.toml", "mine"),
    ],
)
def test_run_folders_of_two_recipes_never_share_a_name(path, name):
    assert run_name(Path(path)) == name


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, "is in phases.0, 0 epochs into it"),
        ({"epoch": 3}, "is in phases.0, 3 epochs into it"),
        ({"phase": 1, "epoch": 3, "phase_start": 2}, "is in phases.1, 1 epochs into it"),
        ({"phase_stop": "patience"}, "is at the end of phases.0, 0 epochs into it"),
        ({"finished": True, "epoch": 3}, "is finished"),
    ],
)
def test_how_far_a_run_has_come(status, said):
    assert place(status) == said

"""``bihm train``, the real command at toy size: signals, clear lines, nothing lost."""

from __future__ import annotations

import errno
import functools
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from toy_recipe import TOY_RECIPE

from bihm_repro.cli import train as train_command
from bihm_repro.cli.main import main
from bihm_repro.cli.train import INTERRUPTIONS, evaluation_line
from bihm_repro.datasets.dataset import load_dataset
from bihm_repro.models.build import build_model
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.training import session
from bihm_repro.training.budget import Budget


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "toy.toml").write_text(TOY_RECIPE)
    return tmp_path


def train(folder, *arguments):
    return main(
        [
            "train",
            str(folder / "toy.toml"),
            "--out",
            str(folder / "run"),
            "--data",
            str(folder / "data"),
            *arguments,
        ]
    )


def test_training_ends_with_an_evaluation_and_is_not_repeated(folder, capsys):
    assert train(folder) == 0
    run = RunDirectory(folder / "run")
    assert run.read_status()["finished"] and run.read_status()["updates"] == 12
    evaluation = run.read_evaluation()
    assert set(evaluation["samples"]) == {"1", "20"} and evaluation["n_examples"] == 500
    assert evaluation["recipe_fingerprint"] == run.recipe.fingerprint()
    assert "bars test, 500 examples; -log p" in capsys.readouterr().out
    before = run.file("log.csv").stat().st_mtime_ns
    assert train(folder) == 0
    said = capsys.readouterr().out
    assert "training is finished for this recipe and these data (12 updates)" in said
    assert "evaluation.json is up to date for this model and these data" in said
    assert run.file("log.csv").stat().st_mtime_ns == before
    check_progress_is_noted(folder, run)
    check_another_recipe(folder, capsys)
    check_fresh(folder, capsys)


def check_progress_is_noted(folder, run):
    """An evaluation made during a pause, after which training found no better model."""
    evaluation = run.read_evaluation()
    run.write_evaluation({**evaluation, "finished": False, "updates": 8})
    assert train(folder) == 0
    assert run.read_evaluation() == evaluation


def check_another_recipe(folder, capsys):
    assert train(folder, "--set", "seed=4") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "holds a run of another recipe (seed: 0, not 4)" in said
    assert RunDirectory(folder / "run").recipe.seed == 0


def check_fresh(folder, capsys):
    assert train(folder, "--set", "seed=4", "--fresh", "--no-evaluate") == 0
    assert "the run that was here is now in" in capsys.readouterr().out
    assert RunDirectory(folder / "run").recipe.seed == 4
    assert RunDirectory(folder / "run").read_evaluation() is None
    old = RunDirectory(folder / ".replaced" / "run-1")
    assert old.recipe.seed == 0 and old.read_evaluation() is not None


def test_every_split_keeps_its_role_in_the_command(folder, monkeypatch):
    seen, [reason, *_] = [], INTERRUPTIONS
    ended = SimpleNamespace(pause=reason, off_schedule=False, status=SimpleNamespace(updates=0))
    monkeypatch.setattr(session, "train", lambda *given: seen.append(given[2]) or ended)
    assert train(folder) == 130
    dataset = load_dataset("bars", folder / "data")
    recipe = Recipe.load(folder / "toy.toml")
    assert train_command._follow(recipe, dataset, Budget(None), None) == 130  # another host
    assert len(seen) == 2
    for data in seen:
        for name in ("train", "valid", "test"):
            assert np.array_equal(getattr(data, name), dataset.splits[name])
        assert data.fingerprint == dataset.fingerprint
    assert len({rows.tobytes() for rows in dataset.splits.values()}) == 3


def test_a_budget_always_ends_with_an_evaluated_model(folder, capsys):
    assert (
        train(
            folder,
            "--budget",
            "1s",
            "--set",
            "phases.0.max_epochs=100000",
            "--set",
            "phases.0.patience=100000",
        )
        == 0
    )
    run = RunDirectory(folder / "run")
    said = capsys.readouterr().out
    assert "paused (the time budget is used up)" in said and "resume with: bihm train" in said
    assert run.read_evaluation()["n_examples"] == 500
    assert not run.read_status()["finished"] and len(run.read_log()) >= 1
    assert "; the schedule that the budget cut short resumes uncut" in said
    assert run.read_state().record["status"]["phase_stop"] == ""


COMMAND = [sys.executable, "-m", "bihm_repro", "train"]
LONG = [
    "--set",
    "phases.0.max_epochs=1000000",
    "--set",
    "phases.0.patience=1000000",
    "--no-evaluate",
]


def start(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [
            *COMMAND,
            str(folder / "toy.toml"),
            "--out",
            str(folder / "run"),
            "--data",
            str(folder / "data"),
            *arguments,
        ],
        text=True,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def wait_for_more_epochs(process, run, count):
    for _ in range(1200):
        log = run.file("log.csv")
        if log.exists() and len(log.read_text().splitlines()) - 1 > count:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError("no epoch was over in time")


def test_signals_save_and_say_how_to_go_on(folder):
    run = RunDirectory(folder / "run")
    updates = 0
    # The first is joined by a second process, which has to be turned away.
    for number, word in ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "asked to end")):
        process = start(folder, *LONG)
        wait_for_more_epochs(process, run, len(run.read_log()) if updates else 0)
        if number == signal.SIGINT:
            second = start(folder, *LONG)
            _, line = second.communicate(timeout=120)
            assert second.returncode == 2
            assert f"process {process.pid} is working on this run folder" in line
        process.send_signal(number)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 130, errors
        status = run.read_status()
        assert status["updates"] > updates and not status["finished"]
        updates = status["updates"]
        assert f"paused ({word}) at update {updates}, all is saved in {run.path}" in output
        assert f"resume with: bihm train {folder}/toy.toml" in output
        assert run.read_state().record["status"]["updates"] == updates


def test_a_paused_run_is_extended_and_goes_on(folder, capsys, monkeypatch):
    """A longer first phase, and a second one that differs in nothing but its running means.

    The clock of --pause-after moves a second an update, and an epoch has four updates.
    """
    monkeypatch.setattr(
        session,
        "PauseAfter",
        functools.partial(session.PauseAfter, clock=itertools.count().__next__),
    )
    run = RunDirectory(folder / "run")
    assert train(folder, *LONG, "--pause-after", "10s") == 0
    done = run.read_status()["epochs"]
    assert done == 2
    with open(folder / "toy.toml", "a") as recipe:
        recipe.write("""
[[phases]]
samples = 3
learning_rate = 0.03
average_over = 4
max_epochs = 1000000
patience = 1000000
""")
    limits = [
        "--set",
        f"phases.0.max_epochs={done + 2}",
        "--set",
        "phases.0.patience=1000000",
        "--no-evaluate",
    ]
    capsys.readouterr()
    assert train(folder, *limits) == 2
    assert "continue with this recipe by --extend" in capsys.readouterr().err
    assert train(folder, *limits, "--extend", "--pause-after", "12s") == 0
    assert list(run.read_log()["phase"]) == [0, 0, 0, 0, 1]
    assert run.read_state().arrays["rule/average.count"] == 10 + 12 - 4 * 4
    more = ["--set", "phases.1.max_epochs=2"]
    assert train(folder, *limits, *more, "--extend") == 0
    assert run.read_status()["finished"] and len(run.read_log()) == 6


TWO_PHASES = "phases=[{samples=3,max_epochs=2,average_over=4},{samples=4,max_epochs=2}]"


def test_a_finished_run_with_a_further_phase_ends_as_if_it_had_always_had_it(folder, capsys):
    """The same log but for the seconds, the same bits, wherever the reopening was killed."""
    once, run = RunDirectory(folder / "once"), RunDirectory(folder / "run")
    both = ["--set", TWO_PHASES, "--no-evaluate"]
    assert train(folder, *both, "--out", str(once.path)) == 0
    assert train(folder, "--set", "phases=[{samples=3,max_epochs=2,average_over=4}]") == 0
    assert run.read_status()["finished"] and not run.has_state
    assert train(folder, *both) == 2
    assert "continue with this recipe by --extend" in capsys.readouterr().err
    finished, run.write_status = run.read_status(), lambda status: None
    run.claim(Recipe.load(folder / "toy.toml", [TWO_PHASES]), extend=True)
    run.reopen()
    assert run.has_state and RunDirectory(run.path).read_status() == finished
    assert train(folder, *both) == 0
    del run.write_status
    assert run.read_status()["finished"] and not run.has_state
    assert run.read_model().fingerprint == once.read_model().fingerprint
    logs = [folder.read_log().drop(columns="seconds") for folder in (once, run)]
    assert logs[0].equals(logs[1]) and list(logs[0]["phase"]) == [0, 0, 1, 1]
    assert run.read_status()["draw"] == once.read_status()["draw"] > finished["draw"] > 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--set", "model.kind=bihn"], "toy.toml: model.kind = 'bihn': must be one of bihm"),
        (["--budget", "soon"], "'soon' is not a time: write it as 90s, 10m, 1.5h or 1h30m"),
        (["--threads", "0"], "--threads 0: at least 1 is needed"),
        (["--pause-after", "abc"], "'abc' is not a time"),
        (["--out", " "], "--out ' ': give the name of a folder"),
        (["--set", "seed=99999999999999999999"], "seed = 99999999999999999999: must be an integer"),
        (["--set", "model.layers=[2000000000000]"], "not enough memory"),
        (["--set", "phases.0.samples=10000000000000"], "not enough memory"),
        (["--set", "dataset=barz"], "data set 'barz' is not registered; did you mean bars?"),
        (["--set", "dataset=mine"], "/data of the data sets does not exist"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_run(folder, arguments, line, capsys):
    assert train(folder, *arguments) == 2
    said = capsys.readouterr().err
    errors = [item for item in said.splitlines() if not item.startswith("compiling")]
    assert len(errors) == 1 and line in errors[0]
    assert not RunDirectory(folder / "run").exists


def test_other_data_are_refused(folder, capsys):
    run = RunDirectory(folder / "run")
    run.claim(Recipe.load(folder / "toy.toml"))
    run.write_status({"data_fingerprint": "other", "finished": True})
    assert train(folder) == 2
    said = capsys.readouterr().err
    assert "was trained on other data than those given now" in said and said.count("\n") == 1
    run.write_status({})
    model = build_model(Recipe.load(folder / "toy.toml").model, 16, 0)
    arrays = {f"parameter/{name}": value for name, value in model.get_values().items()}
    for _ in range(2):
        run.write_state(arrays, {"data_fingerprint": "other"})
    assert train(folder) == 2
    assert "its training began on other data" in capsys.readouterr().err


def test_a_full_disk_is_one_line_and_keeps_the_last_state(folder, capsys, monkeypatch):
    assert train(folder, "--no-evaluate", *LONG, "--pause-after", "1s") == 0
    run = RunDirectory(folder / "run")
    updates = run.read_state().record["status"]["updates"]
    capsys.readouterr()

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", full)
    assert train(folder, *LONG, "--pause-after", "1s") == 2
    said = capsys.readouterr().err
    assert "No space left on device; free some space" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert run.read_state().record["status"]["updates"] == updates


def test_the_line_on_an_evaluation_gives_the_figure_with_most_samples():
    figure = {"value": -2.0, "standard_error": 0.25}
    line = evaluation_line(
        {
            "dataset": "d",
            "split": "test",
            "n_examples": 7,
            "samples": {"9": {"log_p": {**figure, "value": -3.0}}, "10": {"log_p": figure}},
        }
    )
    assert line == "d test, 7 examples; -log p 2.000 +- 0.250 (K = 10)"


def test_a_run_starts_from_the_parameters_of_another(folder, capsys):
    """Named in the frozen recipe, so that it resumes without naming them again."""
    assert train(folder, "--no-evaluate", "--set", "phases.0.max_epochs=1") == 0
    first = RunDirectory(folder / "run")
    parameters = first.read_model()
    assert train_from(folder, first.path, "--pause-after", "0.001s", *LONG) == 0
    run = RunDirectory(folder / "next")
    assert run.recipe.initial.source == str(first.path)
    assert run.recipe.initial.fingerprint == parameters.fingerprint
    assert f"--from {first.path}" in capsys.readouterr().out
    # Adam's first step is the learning rate in every parameter.
    state = run.read_state().arrays["parameter/q0.W"]
    fresh = build_model(run.recipe.model, 16, 0).get_values()["q0.W"]
    assert abs(state - parameters["q0.W"]).max() < 0.0301 < 0.05 < abs(state - fresh).max()
    assert (
        main(
            [
                "train",
                str(folder / "toy.toml"),
                "--out",
                str(run.path),
                "--data",
                str(folder / "data"),
                *LONG[:-1],
                "--pause-after",
                "0.001s",
            ]
        )
        == 0
    )
    assert run.read_status()["updates"] == 2 and run.read_evaluation() is None
    check_other_parameters(folder, first, run, capsys)


def train_from(folder, source, *arguments):
    return main(
        [
            "train",
            str(folder / "toy.toml"),
            "--from",
            str(source),
            "--out",
            str(folder / "next"),
            "--data",
            str(folder / "data"),
            *arguments,
        ]
    )


def check_other_parameters(folder, first, run, capsys):
    capsys.readouterr()
    np.savez(folder / "small.npz", **{"q0.W": np.ones((16, 2))})
    assert train_from(folder, folder / "small.npz", *LONG) == 2
    assert "holds a run of another recipe (initial.fingerprint: " in capsys.readouterr().err
    assert train_from(folder, folder / "small.npz", "--fresh", *LONG) == 2
    said = capsys.readouterr().err
    assert f"{folder}/small.npz: does not fit the recipe's model: parameter" in said
    assert train_from(folder, folder / "nothing", "--fresh", *LONG) == 2
    assert "nothing: there is no such run folder or model file" in capsys.readouterr().err
    assert train_from(folder, folder / "next" / "model.npz", "--fresh", *LONG) == 2
    assert first.exists and "model.npz: there is no such run folder" in capsys.readouterr().err
    same = ["train", str(folder / "toy.toml"), "--from", str(first.path), "--out", str(first.path)]
    assert main([*same, "--data", str(folder / "data"), "--fresh"]) == 2
    assert first.exists and "is the run that --fresh would replace" in capsys.readouterr().err

"""``bihm reproduce``: the chain at toy size, what it skips, and how it shares time and threads."""

from __future__ import annotations

import argparse

import numpy as np
import pytest
from toy_recipe import TOY_RECIPE

from bihm_repro.cli import reproduce
from bihm_repro.cli.main import main
from bihm_repro.cluster.points import Point
from bihm_repro.cluster.training import Outcome
from bihm_repro.errors import InputError
from bihm_repro.recipes.recipe import Recipe, find_recipe
from bihm_repro.runs.layout import RunDirectory


def test_the_chain_runs_once_then_checks_what_is_there(tmp_path, capfd):
    (tmp_path / "toy.toml").write_text(TOY_RECIPE)
    command = [
        "reproduce",
        str(tmp_path / "toy.toml"),
        "--data",
        str(tmp_path / "data"),
        "--results",
        str(tmp_path / "results"),
    ]
    assert main(command) == 0
    run = RunDirectory(tmp_path / "results" / "toy")
    assert run.read_status()["finished"] and run.read_evaluation()["n_examples"] == 500
    said = capfd.readouterr().out
    assert "bars test, 500 examples" in said and "toy" in said.split("| run")[-1]
    assert list((tmp_path / "results" / "tables").glob("*.tex"))

    assert main(command) == 0
    said = capfd.readouterr().out
    assert f"training and evaluation skipped: {run.path} is up to date (12 updates)" in said
    assert "bars.hdf5: skipped, it is there" in said
    assert "stored model on 300 examples, K = 20" in said and "agrees with" in said
    assert run.read_status()["updates"] == 12

    evaluation = run.read_evaluation()
    evaluation["samples"]["20"]["log_p"]["value"] += 3.0
    run.write_evaluation(evaluation)
    assert main(command) == 1
    assert "DOES NOT AGREE with" in capfd.readouterr().out

    assert main([*command, "--no-check"]) == 0
    assert "stored model" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("recorded", "now", "agree"),
    [
        ((-10.0, 0.3), (-11.9, 0.4), True),
        ((-10.0, 0.3), (-12.1, 0.4), False),
        ((-12.1, 0.3), (-10.0, 0.4), False),
    ],
)
def test_two_figures_agree_within_four_standard_errors(recorded, now, agree):
    def figure(pair):
        return {"value": pair[0], "standard_error": pair[1]}

    line, verdict = reproduce.comparison(figure(recorded), figure(now))
    assert verdict == agree and f"{-now[0]:.2f}" in line


def test_a_model_that_changed_after_its_evaluation_is_not_up_to_date(tmp_path, capsys):
    recipe = Recipe.from_dict({"dataset": "bars", "model": {"layers": [2]}})
    run = RunDirectory(tmp_path / "run")
    assert not reproduce._is_evaluated("toy", run, recipe)
    run.claim(recipe)
    run.write_model({"w": np.zeros(2)}, {})
    run.write_status({"updates": 5, "finished": False})
    evaluation = {
        "model_fingerprint": run.read_model().fingerprint,
        "split": "test",
        "samples": {"1": {"log_p": {"value": -1.0, "standard_error": 0.1}}},
    }
    run.write_evaluation(evaluation)
    assert reproduce._is_evaluated("toy", run, recipe)
    assert f"(5 updates, paused; resume with: bihm train toy --out {run.path})" in (
        capsys.readouterr().out
    )
    other = Recipe.from_dict({"dataset": "bars", "model": {"layers": [3]}})
    assert reproduce._is_evaluated("toy", run, other)
    assert "its recipe is not the current one (model.layers: [2], not [3])" in (
        capsys.readouterr().out
    )
    run.write_evaluation({**evaluation, "split": "valid"})
    assert not reproduce._is_evaluated("toy", run, recipe)
    run.write_evaluation(evaluation)
    run.write_model({"w": np.ones(2)}, {})
    assert not reproduce._is_evaluated("toy", run, recipe)


def test_runs_with_a_budget_have_folders_of_their_own(tmp_path):
    for budget, name in ((None, "rws-mnist"), ("10m", "rws-mnist-budget")):
        args = argparse.Namespace(results=tmp_path, budget=budget)
        assert reproduce._folder_and_recipe("rws/mnist", args)[0].path == tmp_path / name


@pytest.fixture
def started(monkeypatch):
    """Replace trainings by a record of how they would have been started."""
    calls = []

    def run_points(points, cluster, threads, options):
        calls.append(([point.name for point in points], cluster, threads, options))
        return {point: Outcome(STATUSES.get(point.name, 0)) for point in points}

    monkeypatch.setattr("bihm_repro.cluster.sweep.run_points", run_points)
    return calls


STATUSES = {"fails": 2, "fails-otherwise": 1, "interrupted": 130}


def arguments(**changes):
    values = {"jobs": 1, "data": "d", "fresh": False, "engine": None, "device": None, **changes}
    return argparse.Namespace(**values)


def points(tmp_path, *names):
    (tmp_path / "toy.toml").write_text(TOY_RECIPE)
    return [Point(str(tmp_path / "toy.toml"), tmp_path / name) for name in names]


def test_jobs_share_threads_and_time(tmp_path, monkeypatch, started):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert reproduce._train(points(tmp_path, *"abc"), arguments(jobs=2), 60.0) == 0
    assert reproduce._train(points(tmp_path, "a"), arguments(jobs=2, engine="pytensor"), None) == 0
    assert started == [
        (["a", "b", "c"], "local:2", 2, ["--data", "d", "--budget", "40s"]),
        (["a"], None, 4, ["--data", "d", "--engine", "pytensor"]),
    ]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["a", "fails"], 2),
        (["fails-otherwise", "fails"], 1),
        (["fails-otherwise", "interrupted"], 130),
    ],
)
def test_the_status_is_that_of_an_interruption_or_of_the_first_failure(
    tmp_path, started, names, wanted
):
    assert reproduce._train(points(tmp_path, *names), arguments(), None) == wanted


def test_a_stand_in_takes_the_place_of_data_that_cannot_be_had(monkeypatch, tmp_path):
    trained, asked = [], []
    monkeypatch.setattr(reproduce, "_train", lambda todo, args, budget: trained.extend(todo) or 0)
    monkeypatch.setattr(reproduce, "_print_tables", lambda args, names: None)

    def obtain(name, recipe, args, alone):
        asked.append(recipe.dataset)
        return None if name == "rcv1" else object()

    monkeypatch.setattr(reproduce, "_obtain_data", obtain)
    assert main(["reproduce", "rcv1", "dna", "--results", str(tmp_path)]) == 0
    assert asked == ["rcv1", "rcv1_surrogate", "dna"]
    assert trained == [Point(name, tmp_path / name) for name in ("rcv1_surrogate", "dna")]


def test_every_set_of_uci_has_a_recipe_and_unknown_targets_are_named():
    assert [Recipe.load(find_recipe(name)).dataset for name in reproduce.UCI] == list(reproduce.UCI)
    with pytest.raises(InputError, match="mnits: no such recipe.*did you mean 'mnist'"):
        find_recipe("mnits")


def test_data_that_cannot_be_had_leave_a_set_out(monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise InputError("no place has it. Tried: (1) here; (2) there")

    monkeypatch.setattr("bihm_repro.datasets.convert.convert", fail)
    recipe = Recipe.from_dict({"dataset": "rcv1", "model": {"layers": [2]}})
    args = argparse.Namespace(data="d", mirror=None)
    assert reproduce._obtain_data("rcv1", recipe, args, alone=False) is None
    assert capsys.readouterr().out == (
        "rcv1: left out: no place has it; more with: bihm data rcv1\n"
    )
    with pytest.raises(InputError, match="no place has it"):
        reproduce._obtain_data("rcv1", recipe, args)

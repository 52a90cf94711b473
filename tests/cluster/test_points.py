"""The points of a sweep: which runs it has, what their folders are called, what is complete."""

from __future__ import annotations

import numpy as np
import pytest
from toy_recipe import TOY_RECIPE

from bihm_repro.cluster.connect import check_address, local_workers
from bihm_repro.cluster.points import parse_grid, parse_seeds, sweep_points
from bihm_repro.cluster.training import Launch
from bihm_repro.cluster.view import progress_line
from bihm_repro.errors import InputError
from bihm_repro.runs.layout import RunDirectory


@pytest.fixture
def toy(tmp_path):
    (tmp_path / "toy.toml").write_text(TOY_RECIPE)
    return str(tmp_path / "toy.toml")


def test_every_combination_is_an_ordinary_training(toy):
    grid = ["training.l1=1e-3,0", "model.layers=[[5, 3], [4]]"]
    points = sweep_points([toy, "dna"], (0, 3), grid)
    assert len(points) == 2 * 2 * 2 * 2
    names = [point.name for point in points]
    assert len(set(names)) == 16
    assert names[:2] == ["toy-l1=0.001-layers=5-3-seed0", "toy-l1=0.001-layers=5-3-seed3"]
    recipe = points[-1].load()
    assert (recipe.dataset, recipe.training.l1, recipe.model.layers, recipe.seed) == (
        "dna",
        0.0,
        (4,),
        3,
    )
    assert points[-1].arguments() == [
        "dna",
        "--set",
        "training.l1=0",
        "--set",
        "model.layers=[4]",
        "--set",
        "seed=3",
        "--out",
        "results/dna-l1=0-layers=4-seed3",
    ]
    assert [point.name for point in sweep_points([toy])] == ["toy"]


def test_settings_with_the_same_last_part_are_named_in_full(toy):
    grid = ["training.l1=0,1", "phases.0.l1=0,1"]
    assert sweep_points([toy], (), grid)[1].name == "toy-training.l1=0-phases.0.l1=1"


def test_the_sign_of_a_value_is_a_part_of_the_name(toy):
    names = [point.name for point in sweep_points([toy], (), ["model.bias=-1,1"])]
    assert names == ["toy-bias=-1", "toy-bias=1"]


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ("a.b=1,2", [1, 2]),
        ("a.b=[1, 2]", [1, 2]),
        ("a.b=[5,3],[4]", [[5, 3], [4]]),
        ("a.b=true", [True]),
        ("a.b='x','y'", ["x", "y"]),
        ("a.b=adam, sgd", ["adam", "sgd"]),
    ],
)
def test_values_of_a_grid(given, values):
    assert parse_grid(given) == ("a.b", values)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (["training.l1"], "--grid training.l1: write it as section.field=V1,V2"),
        (["training.l1=1,1"], "has 1 twice"),
        (["training.l1=[]"], "has no value"),
        (["training.l1=1", "training.l1=2"], "--grid training.l1: is given twice"),
        (["training.l1=often"], "training.l1 = 'often': must be"),
        (["training.l3=1"], "training.l3: unknown setting"),
    ],
)
def test_bad_grids_are_named_before_anything_starts(toy, grid, message):
    with pytest.raises(InputError) as error:
        sweep_points([toy], (), grid)
    assert message in str(error.value)


def test_seeds_and_places_of_workers(tmp_path):
    assert parse_seeds("0-2,2,9") == (0, 1, 2, 9)
    for text in ("", "a", "3-1", "-1", "0-99999999", "1,,2"):
        with pytest.raises(InputError, match="--seeds"):
            parse_seeds(text)
    assert local_workers("local:12") == 12 and local_workers("tcp://host:8786") is None
    check_address("tcp://host:8786")
    for text in ("local:", "local:0", "local:x", "local:99999", str(tmp_path / "none.json")):
        with pytest.raises(InputError, match="--cluster"):
            check_address(text)


def test_two_recipes_with_one_folder_are_refused(toy, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "toy.toml").write_text(TOY_RECIPE)
    with pytest.raises(InputError, match="two runs would have this folder"):
        sweep_points([toy, str(other / "toy.toml")])


def test_a_point_is_complete_when_it_is_finished_and_evaluated(toy, tmp_path):
    (point,) = sweep_points([toy], (4,), (), tmp_path)
    run = RunDirectory(point.folder)
    assert not point.is_complete()
    run.claim(point.load())
    run.write_model({"w": np.zeros(2)}, {})
    run.write_status({"finished": False, "data_fingerprint": "d"})
    assert not point.is_complete(evaluated=False)
    run.write_status({"finished": True, "data_fingerprint": "d"})
    assert point.is_complete(evaluated=False) and not point.is_complete()
    number = {"value": -1.0, "standard_error": 0.1}
    evaluation = {
        "model_fingerprint": run.read_model().fingerprint,
        "data_fingerprint": "d",
        "split": "test",
        "n_examples": 5,
        "samples": {"1": {"log_p": number}, "20": {"log_p": number}},
        "ess": {"samples": 20, "examples": 5, "p": number},
    }
    run.write_evaluation(evaluation)
    assert point.is_complete()
    run.write_evaluation({**evaluation, "ess": {**evaluation["ess"], "samples": 19}})
    assert not point.is_complete()
    run.write_evaluation({**evaluation, "model_fingerprint": "other"})
    assert not point.is_complete()
    (other,) = sweep_points([toy], (5,), (), tmp_path)
    point.folder.rename(other.folder)
    assert not other.is_complete(evaluated=False)


def test_threads_follow_the_option_and_not_what_dask_sets(toy, monkeypatch):
    monkeypatch.setattr("bihm_repro.cluster.training.available_cores", lambda: 8)
    (point,) = sweep_points([toy])

    def threads(launch, share):
        command = launch.command(point, share)
        return command[command.index("--threads") + 1]

    assert threads(Launch("id", "."), 1) == "8" and threads(Launch("id", "."), 3) == "2"
    assert threads(Launch("id", ".", threads=5), 3) == "5"
    command = Launch("id", ".", 1, ("--engine", "theano")).command(point)
    assert command[-2:] == ["--engine", "theano"]


def test_the_line_of_a_running_point(toy):
    recipe = sweep_points([toy])[0].load()  # one phase of at most 3 epochs
    assert progress_line({}, recipe) == "starting"
    status = {"epochs": 2, "phase": 0, "seconds": 120.0, "best_valid": -10.25}
    assert progress_line(status, recipe) == (
        "phase 1/1, epoch 2, best validation -log p 10.250, at most 01:00 left"
    )
    assert progress_line({**status, "finished": True}, recipe).endswith("10.250, evaluation")


def test_a_value_too_long_for_the_name_of_a_folder_is_one_line(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('dataset = "bars"\n[model]\nlayers = [2]\n')
    fits = "9" * (200 - len("a-title="))
    [point] = sweep_points([str(path)], (), [f'title="{fits}"'], tmp_path)
    assert len(point.name) == 200 and not point.is_complete()
    with pytest.raises(InputError, match="the name has 201 characters, at most 200 are allowed"):
        sweep_points([str(path)], (), [f'title="{fits}9"'], tmp_path)

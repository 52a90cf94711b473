"""A layer type and a training method from outside the package, through the command line.

Each is one file of the tests, named in BIHM_PLUGINS. A process of its own keeps the registries of
the other tests as they are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from toy_recipe import TOY_RECIPE

SCRIPT = """
import sys
from bihm_repro.cli.main import main
from bihm_repro.runs.layout import RunDirectory

folder = sys.argv[1]
def run(*words):
    status = main([word.replace("@", folder + "/") for word in words])
    assert status == 0, words

for kind in ("method", "layer"):
    recipe = ("train", f"@{kind}.toml", "--out")
    run(*recipe, f"@{kind}-paused", "--pause-after", "0.001s", "--no-evaluate")
    state = RunDirectory(f"{folder}/{kind}-paused").read_state()
    assert 0 < state.record["status"]["updates"] < 12, state.record["status"]
    if kind == "method":
        assert state.arrays["rule/reinforce.baseline"] != -10
    run(*recipe, f"@{kind}-paused", "--no-evaluate")
    run(*recipe, f"@{kind}-whole", "--no-evaluate")
    run("evaluate", f"@{kind}-whole", "--z-samples", "200", "--ess-samples", "0")
    run("sample", f"@{kind}-whole", "--n", "4", "--gibbs", "0,3" if kind == "layer" else "0")
    run("layers", f"@{kind}-whole")
run("inpaint", "@layer-whole", "--n", "2", "--gibbs", "2")
"""

RECIPES = {
    "method": TOY_RECIPE.replace("[model]", '[model]\nkind = "reinforce"'),
    "layer": TOY_RECIPE.replace(
        "[model]", '[model]\np_layer = ["chain", "bernoulli"]\nq_layer = "chain"'
    ),
}


def environment(plugins):
    path = os.pathsep.join(filter(None, sys.path))
    # Without a compiler: at this size, compiling would take nearly all of the time.
    flags = "cxx=,optimizer=fast_compile"
    return {
        **os.environ,
        "BIHM_PLUGINS": plugins,
        "PYTHONPATH": path,
        "THEANO_FLAGS": flags,
        "PYTENSOR_FLAGS": f"{flags},linker=py",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    for name, text in RECIPES.items():
        (folder / f"{name}.toml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        env=environment("toy_layer,toy_method"),
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_paused_run_equals_an_uninterrupted_one(folder, name):
    paused, whole = (
        dict(np.load(folder / f"{name}-{how}" / "model.npz")) for how in ("paused", "whole")
    )
    assert set(paused) == set(whole)
    for array in set(paused) - {"meta"}:
        assert np.array_equal(paused[array], whole[array]), array


@pytest.mark.parametrize("name", list(RECIPES))
def test_training_raised_the_validation_log_p(folder, name):
    log = (folder / f"{name}-whole" / "log.csv").read_text().splitlines()
    column = log[0].split(",").index("valid_log_p")
    values = [float(row.split(",")[column]) for row in log[1:]]
    assert len(values) == 3 and values[-1] > values[0] + 0.1


def test_evaluations_hold_what_each_can_do(folder):
    method, layer = (
        json.loads((folder / f"{name}-whole" / "evaluation.json").read_text()) for name in RECIPES
    )
    assert set(method["samples"]["20"]) == {"log_p"} and "log_z2" not in method
    assert set(layer["samples"]["20"]) == {"log_p", "log_p_tilde_star", "log_p_star"}
    assert layer["log_z2"]["value"] < 0
    assert method["model_kind"] == "reinforce"


def test_parameters_and_pictures_are_those_of_the_layer(folder):
    with np.load(folder / "layer-whole" / "model.npz") as arrays:
        assert arrays["p0.c"].shape == (16,) and arrays["q1.c"].shape == (3,)
        assert "p1.c" not in arrays.files
    pictures = {path.name for path in (folder / "layer-whole" / "pictures").iterdir()}
    assert {"samples-0.png", "samples-3.png", "inpainting-left.png"} <= pictures
    pictures = {path.name for path in (folder / "method-whole" / "pictures").iterdir()}
    assert pictures == {"samples-0.png"}


def test_without_the_plugin_the_recipe_is_refused_and_a_missing_one_is_named(folder):
    command = [sys.executable, "-m", "bihm_repro", "train", str(folder / "method.toml")]
    for plugins, message in (
        ("", "model.kind = 'reinforce': must be one of bihm"),
        ("no_such_plugin", "plugin 'no_such_plugin' (BIHM_PLUGINS"),
    ):
        done = subprocess.run(command, env=environment(plugins), capture_output=True, text=True)
        assert done.returncode == 2 and message in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_type_without_a_prior_cannot_be_one(folder):
    command = [
        sys.executable,
        "-m",
        "bihm_repro",
        "train",
        str(folder / "layer.toml"),
        "--set",
        "model.prior=chain",
    ]
    done = subprocess.run(command, env=environment("toy_layer"), capture_output=True, text=True)
    assert done.returncode == 2 and "model.prior is 'chain': allowed are bernoulli" in done.stderr

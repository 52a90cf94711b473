"""A run killed again and again ends as one that never was: parameters, log, evaluation, bits.

A parent process compiles once and forks a child for each attempt, so that the kills fall into
training and into the writing of checkpoints, not into the start of an interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bihm_repro.runs.layout import RunDirectory

KILLS = 20
PARENT = """
import json, os, random, signal, sys, time
from bihm_repro.datasets.dataset import load_dataset
from bihm_repro.estimators.evaluate import evaluate_run
from bihm_repro.models.build import build_model
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.training.extensions import Extension
from bihm_repro.training.session import Options, TrainingData, assemble, restore

root, kills = sys.argv[1], int(sys.argv[2])
recipe = Recipe.from_dict({
    "dataset": "bars", "seed": 3, "model": {"layers": [5, 3]},
    "training": {"batch_size": 60},
    "phases": [{"samples": 3, "learning_rate": 0.03, "max_epochs": 5, "patience": 5},
               {"samples": 4, "learning_rate": 0.01, "max_epochs": 25, "patience": 25,
                "average_over": 8, "valid_samples": 6}],
    "monitor": {"valid_samples": 3, "test_every": 3, "test_samples": [1, 4],
                "test_examples": 50, "z_samples": 200, "checkpoint_seconds": 0},
    "evaluation": {"samples": [1, 20], "z_samples": 500, "ess_samples": 20, "ess_examples": 20}})
dataset = load_dataset("bars", root)
splits = {name: rows[:330] for name, rows in dataset.splits.items()}
data = TrainingData(splits["train"], splits["valid"], splits["test"], dataset.fingerprint)
model = build_model(recipe.model, dataset.dim, recipe.seed)


class TellParent(Extension):
    # Writes to the parent once so many updates are made; the kill then comes at any moment.
    target = None

    def after_batch(self, loop):
        if self.target is not None and loop.log.status.updates >= self.target:
            os.write(self.pipe, b".")
            self.target = None


tell = TellParent()


def prepared(name):
    run = RunDirectory(os.path.join(root, name))
    run.claim(recipe)
    loop = assemble(model, recipe, data, run, Options(quiet=True, extensions=(tell,)))
    for phase in recipe.phases:
        loop._compile_phase(phase, 0)
    return run, loop


def attempt(run, loop):
    child = os.fork()
    if child == 0:
        try:
            with run.lock():
                restore(loop, run, data.fingerprint)
                loop.run()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return child


whole, loop = prepared("whole")
assert os.waitpid(attempt(whole, loop), 0)[1] == 0
killed, loop = prepared("killed")
moments, chance, updates = [], random.Random(7), 0
while len(moments) < kills:
    listening, tell.pipe = os.pipe()
    tell.target = updates + chance.randint(1, 3)
    child = attempt(killed, loop)
    os.close(tell.pipe)
    os.read(listening, 1)
    time.sleep(chance.uniform(0, 0.01))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(listening)
    state = killed.read_state()
    updates = state.record["status"]["updates"] if state else 0
    moments.append(updates)
tell.target = None
before_the_end = not killed.read_status().get("finished", False)
assert os.waitpid(attempt(killed, loop), 0)[1] == 0
for run in (whole, killed):
    evaluate_run(run, dataset=dataset)
print(json.dumps({"moments": moments, "before_the_end": before_the_end}))
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    root = tmp_path_factory.mktemp("resume")
    package = str(Path(__file__).parents[2])
    # One thread: a fork keeps no others.
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": package,
    }
    answer = subprocess.run(
        [sys.executable, "-c", PARENT, str(root), str(KILLS)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=550,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    facts = json.loads(answer.stdout.splitlines()[-1])
    return facts, RunDirectory(root / "whole"), RunDirectory(root / "killed")


def test_the_kills_fell_into_training(outcome):
    facts, whole, _ = outcome
    assert len(facts["moments"]) == KILLS
    assert facts["moments"] == sorted(facts["moments"])
    assert len(set(facts["moments"])) >= 5 and facts["before_the_end"], facts
    assert whole.read_status()["finished"] and whole.read_status()["phase"] == 1


def test_parameters_are_the_same_bits(outcome):
    _, whole, killed = outcome
    one, other = whole.read_model(), killed.read_model()
    assert set(one) == set(other) and "q1.W" in one
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
    assert whole.read_state() is None and killed.read_state() is None


def test_the_log_is_the_same_but_for_seconds(outcome):
    _, whole, killed = outcome
    one, other = (run.file("log.csv").read_text().splitlines() for run in (whole, killed))
    column = one[0].split(",").index("seconds")

    def cut(lines):
        return [line.split(",")[:column] + line.split(",")[column + 1 :] for line in lines]

    assert len(one) >= 8 and cut(one) == cut(other)
    assert whole.read_log()["log_z2"].notna().any()


def test_status_and_evaluation_are_the_same_but_for_seconds(outcome):
    _, whole, killed = outcome
    for read in (RunDirectory.read_status, RunDirectory.read_evaluation):
        one, other = read(whole), read(killed)
        for found in (one, other):
            assert found.pop("seconds") >= 0
            found.pop("estimator_seconds", None)
        assert one == other
    assert killed.read_evaluation()["n_examples"] > 0

"""Sweeps: on workers of which one is killed twice, interrupted, repeated, with points that fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from bihm_repro.cli.main import main
from bihm_repro.cluster.points import sweep_points
from bihm_repro.cluster.training import Launch, Outcome, run_point, stop_points
from bihm_repro.cluster.view import View
from bihm_repro.runs.layout import RunDirectory

RECIPE = """
dataset = "bars"
[model]
layers = {layers}
[training]
batch_size = 500
[[phases]]
samples = 3
learning_rate = 0.03
max_epochs = {epochs}
patience = 5000
[monitor]
valid_samples = 3
test_every = 0
checkpoint_seconds = 0.1
[evaluation]
samples = [1]
z_samples = 0
ess_samples = 0
"""


def write_recipe(path, layers="[5, 3]", epochs=200):
    path.write_text(RECIPE.format(layers=layers, epochs=epochs))
    return str(path)


def content(folder):
    """Everything in a run folder that depends neither on the clock nor on the checkout."""
    run = RunDirectory(folder)
    left_out = ("seconds", "commit")
    status = {name: value for name, value in run.read_status().items() if name not in left_out}
    model = run.read_model()
    return {
        "files": sorted(path.name for path in folder.iterdir()),
        "recipe": (folder / "recipe.toml").read_text(),
        "log": run.read_log().drop(columns="seconds").to_csv(),
        "status": json.dumps(status, sort_keys=True),
        "model": (model.fingerprint, {name: model[name].tobytes() for name in model}),
    }


class Killer(threading.Thread):
    """Kills the worker of a run that has made a checkpoint, ``times`` times."""

    def __init__(self, folders, times):
        super().__init__(daemon=True)
        self.folders, self.left, self.killed = list(folders), times, []

    def run(self):
        import psutil

        while self.left:
            for child in psutil.Process().children(recursive=True):
                try:
                    words = child.cmdline()
                    if "bihm_repro.cluster.child" in words:
                        self._kill(words[words.index("--out") + 1], child.parent())
                except psutil.Error:
                    continue
            time.sleep(0.1)

    def _kill(self, folder, worker):
        status = RunDirectory(folder).read_status()
        if (
            status.get("updates")
            and not status["finished"]
            and self.left
            and (folder not in [name for name, _ in self.killed])
        ):
            self.killed.append((folder, status["updates"]))
            self.left -= 1
            os.kill(worker.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_runs_equal_plain_training_though_a_worker_is_killed_twice(tmp_path, capfd):
    pytest.importorskip("distributed")
    recipes = [write_recipe(tmp_path / "a.toml"), write_recipe(tmp_path / "b.toml", "[4]")]
    options = ["--threads", "1", "--no-evaluate"]
    command = [
        "sweep",
        *recipes,
        "--seeds",
        "0-2",
        "--cluster",
        "local:2",
        *options,
        "--results",
        str(tmp_path / "swept"),
    ]
    points = sweep_points(recipes, (0, 1, 2), (), tmp_path / "swept")
    killer = Killer([point.folder for point in points], 2)
    killer.start()
    assert main(command) == 0
    assert len(killer.killed) == 2 and all(updates > 0 for _, updates in killer.killed)
    said = capfd.readouterr().out
    assert said.count(": done: phase 1 over: 200 epochs") == 6

    for point in points:
        alone = tmp_path / "plain" / point.name
        changes = [word for change in point.overrides for word in ("--set", change)]
        assert main(["train", point.recipe, *changes, "--out", str(alone), *options]) == 0
        assert content(point.folder) == content(alone)

    capfd.readouterr()
    assert main(command) == 0
    said = capfd.readouterr().out
    assert said.count(" is up to date") == 6 and "done" not in said
    table = (tmp_path / "swept" / "sweep" / "comparison.csv").read_text().splitlines()
    names = [line.split(",")[0].rpartition("/")[2] for line in table[1:]]
    best = {point.name: RunDirectory(point.folder).read_status()["best_valid"] for point in points}
    assert names == sorted(best, key=best.get, reverse=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_interrupted_sweep_saves_its_runs_and_says_how_to_go_on(tmp_path):
    pytest.importorskip("distributed")
    recipe = write_recipe(tmp_path / "long.toml", epochs=10**6)
    results = tmp_path / "results"
    command = [
        sys.executable,
        "-m",
        "bihm_repro",
        "sweep",
        recipe,
        "--seeds",
        "0-2",
        "--cluster",
        "local:2",
        "--threads",
        "1",
        "--results",
        str(results),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    runs = [RunDirectory(results / f"long-seed{seed}") for seed in range(3)]
    while process.poll() is None and not all(run.read_status().get("updates") for run in runs[:2]):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as the terminal does: to every process of the group
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "0 of 3 runs are complete, 0 failed" in said
    assert f"bihm sweep {recipe} --seeds 0-2 --cluster local:2" in said
    for run in runs[:2]:
        state = run.read_state()
        assert state is not None and state.record["status"]["updates"] > 0
        with run.lock():
            pass
    assert not runs[2].exists


def test_a_failing_point_is_reported_and_does_not_stop_the_others(tmp_path, capfd):
    recipe = write_recipe(tmp_path / "toy.toml", epochs=2)
    results = tmp_path / "results"
    broken = RunDirectory(results / "toy-l1=0")
    broken.path.mkdir(parents=True)
    broken.write_model({"w": np.zeros(2)}, {})
    assert (
        main(
            [
                "sweep",
                recipe,
                "--grid",
                "training.l1=0,1e-3",
                "--threads",
                "1",
                "--results",
                str(results),
            ]
        )
        == 1
    )
    out, err = capfd.readouterr()
    assert f"{broken.path}: holds files of a run but no recipe.toml" in err
    assert "1 of 2 runs are complete, 1 failed" in out
    assert RunDirectory(results / "toy-l1=0.001").read_evaluation()["n_examples"] == 500


def test_a_point_of_a_stopped_sweep_does_not_start_and_a_missing_folder_is_named(tmp_path):
    (point,) = sweep_points([write_recipe(tmp_path / "toy.toml")], (), (), tmp_path / "results")
    stop_points("stopped")
    assert run_point(point, Launch("stopped", str(tmp_path))) == Outcome(130)
    assert not point.folder.exists()
    with pytest.raises(ValueError, match="does not see this folder"):
        run_point(point, Launch("other", str(tmp_path / "none")))
    assert Outcome(-9).last_line == "ended by signal 9"


def test_plain_lines_come_at_changes_of_phase_and_once_a_minute(tmp_path, capsys):
    (point,) = sweep_points([write_recipe(tmp_path / "toy.toml", epochs=100)], (), (), tmp_path)
    now, run = [0.0], RunDirectory(point.folder)
    with View([point], clock=lambda: now[0]) as view:
        for seconds, epochs in ((0, 0), (10, 1), (20, 2), (80, 3), (81, 4)):
            now[0] = float(seconds)
            run.write_status({"epochs": epochs, "phase": 0, "seconds": float(epochs)})
            view.refresh({point})
        view.ended(point, Outcome(2, ("no data",)))
    assert capsys.readouterr().out.splitlines() == [
        "toy: starting",
        "toy: phase 1/1, epoch 1, at most 01:39 left",
        "toy: phase 1/1, epoch 3, at most 01:37 left",
        "toy: failed: no data",
    ]

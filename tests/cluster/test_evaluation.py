"""Evaluation on workers: the same bits for any number of them, and when one is killed."""

from __future__ import annotations

import json
import os
import pickle
import signal
import threading
import time
from collections import deque

import numpy as np
import pytest
from toy_recipe import TOY_RECIPE

from bihm_repro.cli.main import main
from bihm_repro.cluster import evaluation as on_workers
from bihm_repro.cluster.evaluation import Workplace
from bihm_repro.errors import InputError


class Future:
    """A finished or failed task."""

    def __init__(self, task):
        self.task = task

    def result(self):
        return self.task()


class Client:
    """Runs tasks when they are asked for; the first task of each block dies with its worker."""

    def __init__(self, workers, deaths=0):
        self.workers, self.deaths, self.most, self.submitted = workers, deaths, 0, []
        self.open = 0

    def nthreads(self):
        return {f"worker {number}": 1 for number in range(self.workers)}

    def submit(self, function, content, place, title, numbers, pure, retries):
        self.submitted.append(numbers)
        self.open += 1
        self.most = max(self.most, self.open)

        def task():
            self.open -= 1
            if self.submitted.count(numbers) <= self.deaths:
                from distributed import KilledWorker

                raise KilledWorker(str(numbers), None, 3)
            return [np.array([number]) for number in numbers]

        return Future(task)


class Blocks:
    title = "blocks"

    def size(self, number):
        return 4096


@pytest.mark.parametrize(("workers", "deaths"), [(0, 0), (1, 0), (3, 2)])
def test_sums_come_in_the_order_of_their_blocks_with_few_tasks_under_way(workers, deaths):
    pytest.importorskip("distributed")
    client, count = Client(workers, deaths), 10_000
    found = on_workers._in_order(client, b"", None, Blocks(), deque(range(count)))
    assert np.concatenate(list(found)).tolist() == list(range(count))
    tasks = list(dict.fromkeys(client.submitted))
    assert max(map(len, tasks)) == on_workers.SAMPLES_OF_A_TASK // 4096 == 64
    assert client.most <= 2 * max(1, workers) + 2
    assert sum(map(len, tasks)) == count


def test_a_worker_without_the_folder_says_so(tmp_path):
    place = Workplace(str(tmp_path / "none"), "data")
    with pytest.raises(InputError, match="does not see this folder"):
        on_workers.block_sums(pickle.dumps(None), place, "2 log Z", (0,))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "toy.toml").write_text(TOY_RECIPE)
    out = folder / "run"
    assert main(["train", str(folder / "toy.toml"), "--out", str(out), "--no-evaluate"]) == 0
    return out


def kill_a_worker(run, killed):
    """Kill one worker with SIGKILL as soon as 2 log Z is complete."""
    import psutil

    while not (run / "blocks" / "2-log-Z.npz").exists():
        time.sleep(0.01)
    workers = [
        child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())
    ]
    os.kill(workers[0].pid, signal.SIGKILL)
    killed.append(workers[0].pid)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_estimates_are_the_same_for_any_number_of_workers_and_when_one_is_killed(run):
    pytest.importorskip("distributed")
    found, killed = [], []
    for workers in range(4):
        cluster = ["--cluster", f"local:{workers}", "--threads", "1"] if workers else []
        if workers == 2:
            threading.Thread(target=kill_a_worker, args=(run, killed), daemon=True).start()
        assert (
            main(
                [
                    "evaluate",
                    str(run),
                    "--samples",
                    "1,10,200",
                    "--z-samples",
                    "50000",
                    "--ess-samples",
                    "3000",
                    "--ess-examples",
                    "60",
                    *cluster,
                ]
            )
            == 0
        )
        result = json.loads((run / "evaluation.json").read_text())
        found.append({name: result[name] for name in ("log_z2", "samples", "ess")})
        assert not (run / "blocks").exists()
        (run / "evaluation.json").unlink()
    assert found[0]["ess"]["examples"] == 60 and found[0]["log_z2"]["samples"] == 50000
    assert found[1:] == found[:1] * 3
    assert len(killed) == 1

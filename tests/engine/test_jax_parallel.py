"""Training on several devices and several hosts, all of them on this machine's CPU."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bihm_repro.engine.symbolic import engine
from bihm_repro.runs.layout import RunDirectory

if engine != "pytensor" or importlib.util.find_spec("jax") is None:
    pytest.skip("needs PyTensor with JAX", allow_module_level=True)

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **os.environ,
    "BIHM_ENGINE": "pytensor",
    "BIHM_DEVICE": "jax-cpu",
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",
}

DEVICES = """
import os
import numpy as np
from bihm_repro.datasets.bars import draw_bars
from bihm_repro.engine import jax_parallel
from bihm_repro.engine.symbolic import T, device_count, function
from bihm_repro.models.build import build_model
from bihm_repro.recipes.recipe import ModelRecipe, Phase, TrainingRecipe
from bihm_repro.training.update import compile_update

rows = draw_bars(500, 0).astype(np.float32)
batches = [rows[start:start + 40] for start in range(0, 500, 40)]
assert len(batches[-1]) == 20, "does not divide by 8"
expected = None
for devices in (1, 2, 8):
    os.environ["BIHM_DEVICES"] = str(devices)
    jax_parallel.mesh.cache_clear()
    assert device_count() == devices
    model = build_model(ModelRecipe(layers=(12, 6)), 16, seed=1)
    x, counter, count = T.matrix("x", dtype="float32"), T.lscalar("counter"), T.lscalar("count")
    sample = function([x, counter], model.infer(x, 5, 2, counter).layers[0])
    first = sample(batches[0], 0)
    update = compile_update(model, TrainingRecipe(), Phase(samples=5), 7)
    for i in range(100):
        sums = update(batches[i % len(batches)])
    held = model.parameters[0].get_value(borrow=True)
    assert len(held.sharding.device_set) == devices and held.is_fully_replicated
    found = {**model.get_values(), **update.get_state(), **sums}
    outer, log_r, _ = model.log_z_terms(count, count, 3, counter)
    found["outer"] = function([count, counter], outer)(24, 5)
    if expected is None:
        expected, samples = found, first
        continue
    assert np.array_equal(first, samples), "samples"
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=2e-4, atol=2e-6, err_msg=name)
    assert any(not np.array_equal(found[name], expected[name]) for name in found), "not divided"
print("fine")
"""


def test_one_two_and_eight_devices_agree():
    done = subprocess.run(
        [sys.executable, "-c", DEVICES],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        env={**ENVIRONMENT, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"},
    )
    assert done.stdout == "fine\n", done.stderr[-3000:]


# 2000 rows in mini-batches of 192: the last of an epoch has 80 and does not divide by 3.
RECIPE = """
dataset = "bars"
seed = 3
model = {layers = [8, 4]}
training = {batch_size = 192}
monitor = {valid_samples = 5, test_every = 0, checkpoint_seconds = 0}
phases = [{samples = 4, learning_rate = 0.01, max_epochs = 2}]
"""
# Ends host I without any notice after 5 updates, when a checkpoint has been written.
KILLED = """
import os, signal, sys
from bihm_repro.cli.main import main
from bihm_repro.training.extensions.hosts import Agreement

agree = Agreement.after_batch

def after_batch(self, loop):
    agree(self, loop)
    if loop.log.status.updates >= 5:
        os.kill(os.getpid(), signal.SIGKILL)

Agreement.after_batch = after_batch
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a recipe and its data, and the run of one device in ``single``."""
    folder = tmp_path_factory.mktemp("hosts")
    (folder / "toy.toml").write_text(RECIPE)
    assert (
        subprocess.run(
            [sys.executable, "-m", "bihm_repro", "data", "bars", "--out", "data"],
            cwd=folder,
            env=ENVIRONMENT,
            capture_output=True,
        ).returncode
        == 0
    )
    assert wait(train(folder, "single")) == (0, "")
    return folder


def train(folder: Path, out: str, *options: str, script: str = "") -> subprocess.Popen:
    """Start ``bihm train``; ``script`` is run in its place."""
    command = ["-c", script] if script else ["-m", "bihm_repro"]
    return subprocess.Popen(
        [sys.executable, *command, "train", "toy.toml", "--out", out, "--no-evaluate", *options],
        cwd=folder,
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def wait(process: subprocess.Popen) -> tuple[int, str]:
    """Return the exit status and the lines on standard error that report an error."""
    _, err = process.communicate(timeout=400)
    lines = [
        line
        for line in err.splitlines()
        if not line.startswith(("compiling", "loading", "waiting"))
    ]
    return process.returncode, "\n".join(lines)


def start_hosts(folder: Path, out: str, count: int, options=None, scripts=None):
    """Start one process per host; ``options`` and ``scripts`` are those of single hosts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    return [
        train(
            folder,
            out,
            "--hosts",
            str(count),
            "--host-id",
            str(host),
            "--coordinator",
            address,
            *(options or {}).get(host, ()),
            script=(scripts or {}).get(host, ""),
        )
        for host in range(count)
    ]


def assert_same_run(found: Path, expected: Path) -> None:
    one, other = RunDirectory(found), RunDirectory(expected)
    assert one.read_status()["finished"] and other.read_status()["finished"]
    assert one.read_status()["updates"] == other.read_status()["updates"] == 22
    with np.load(found / "model.npz") as values, np.load(expected / "model.npz") as wanted:
        for name in wanted.files:
            if wanted[name].dtype.kind == "f":
                np.testing.assert_allclose(values[name], wanted[name], rtol=2e-4, atol=2e-6)
    for column in ("train_log_p", "valid_log_p"):
        assert one.read_log()[column].to_numpy() == pytest.approx(
            other.read_log()[column].to_numpy(), abs=1e-4
        )


def test_two_hosts_train_the_model_of_one_device(folder):
    processes = start_hosts(folder, "two", 2)
    assert [wait(process) for process in processes] == [(0, ""), (0, "")]
    assert_same_run(folder / "two", folder / "single")


def test_a_killed_host_ends_the_others_and_another_number_of_devices_resumes(folder):
    processes = start_hosts(folder, "killed", 3, scripts={2: KILLED})
    ends = [wait(process) for process in processes]
    assert ends[2][0] == -signal.SIGKILL
    for status, message in ends[:2]:
        assert status == 2
        assert message.count("\n") == 0 and message.startswith("bihm: error: ")
        assert "is gone; the run folder is saved up to its last checkpoint" in message
    assert 0 < RunDirectory(folder / "killed").read_status()["updates"] < 22
    assert wait(train(folder, "killed", "--devices", "2")) == (0, "")
    assert_same_run(folder / "killed", folder / "single")


def test_hosts_refuse_a_recipe_that_differs(folder):
    processes = start_hosts(folder, "differ", 2, options={1: ("--set", "seed=4")})
    for status, message in map(wait, processes):
        assert status == 2
        assert message.startswith("bihm: error: host 1 has another recipe than host 0")
    assert not (folder / "differ" / "state.npz").exists()


def test_a_finished_run_ends_every_host_with_success(folder):
    processes = start_hosts(folder, "single", 2)
    assert [wait(process) for process in processes] == [(0, ""), (0, "")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--devices", "5"),
            "batch_size 192 does not divide by 5 devices: use --devices (or BIHM_DEVICES), or "
            "--set training.batch_size=195",
        ),
        (
            ("--hosts", "2", "--host-id", "0", "--coordinator", "127.0.0.1:0"),
            "not all of 2 hosts met at 127.0.0.1:0 within 3 s",
        ),
        (
            ("--hosts", "2", "--host-id", "0", "--coordinator", "192.0.2.1:29500"),
            "host 0 cannot listen at 192.0.2.1:29500 (",
        ),
    ],
)
def test_what_cannot_be_run_is_one_line(folder, options, message):
    ENVIRONMENT["BIHM_HOSTS_TIMEOUT"] = "3"
    try:
        status, found = wait(train(folder, "refused", *options))
    finally:
        del ENVIRONMENT["BIHM_HOSTS_TIMEOUT"]
    assert status == 2 and message in found.splitlines()[-1]
    assert not (folder / "refused" / "recipe.toml").exists()

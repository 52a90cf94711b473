"""PyTensor beside theano: the same samples, the same parameters, each other's run folders.

Each engine runs in a process of its own, in the environment that holds it; where that is not
there, the comparison is skipped.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bihm_repro.engine.symbolic import T, device, engine, function, shared
from bihm_repro.runs.layout import RunDirectory

if engine != "pytensor":
    pytest.skip(
        "the engines are compared where the tests run under pytensor", allow_module_level=True
    )

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).resolve().parents[1] / "engine_worker.py"
THEANO = ROOT / ".venv" / "bin" / "python"
has_jax = importlib.util.find_spec("jax") is not None
needs_jax = pytest.mark.skipif(not has_jax, reason="JAX is not in this environment")
needs_theano = pytest.mark.skipif(
    not THEANO.exists()
    or subprocess.run(
        [str(THEANO), "-c", "import scipy"], check=False, capture_output=True
    ).returncode
    != 0,
    reason="theano's environment .venv is not there (make setup ENGINE=theano)",
)


def run_worker(engine_name: str, device_name: str, *tasks: object) -> None:
    """Run ``engine_worker`` under an engine and device."""
    python = str(THEANO) if engine_name == "theano" else sys.executable
    done = subprocess.run(
        [python, str(WORKER), *map(str, tasks)],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        env={
            **os.environ,
            "BIHM_ENGINE": engine_name,
            "BIHM_DEVICE": device_name,
            "PYTHONPATH": str(ROOT),
        },
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def of_theano(tmp_path_factory):
    """100 updates; a run of four epochs; a run that stopped after two."""
    folder = tmp_path_factory.mktemp("theano")
    run_worker(
        "theano",
        "cpu",
        "train",
        folder / "trained.npz",
        "until:4",
        folder / "whole",
        "until:2",
        folder / "half",
    )
    return folder


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as stored:
        return dict(stored)


def assert_same_run(found: Path, expected: Path) -> None:
    """Parameters and figures to rounding; a run records the engine that ended it."""
    one, other = RunDirectory(found), RunDirectory(expected)
    assert one.read_status()["finished"] and other.read_status()["finished"]
    assert one.read_status()["updates"] == other.read_status()["updates"] == 32
    values, wanted = one.read_model(), other.read_model()
    assert values.keys() == wanted.keys()
    for name, value in values.items():
        assert value == pytest.approx(wanted[name], abs=2e-5), name
    for column in ("train_log_p", "valid_log_p", "valid_log_p_tilde_star"):
        assert one.read_log()[column].to_numpy() == pytest.approx(
            other.read_log()[column].to_numpy(), abs=1e-4
        ), column


@pytest.mark.slow
@needs_theano
@pytest.mark.parametrize("on", ["cpu", pytest.param("jax-cpu", marks=needs_jax)])
def test_a_hundred_updates_and_a_run_of_theano_goes_on(on, of_theano, tmp_path):
    """The same samples, the same parameters and moments to rounding; then theano's half run."""
    shutil.copytree(of_theano / "half", tmp_path / "half")
    assert RunDirectory(tmp_path / "half").read_status()["epochs"] == 2
    run_worker("pytensor", on, "train", tmp_path / "trained.npz", "until:4", tmp_path / "half")
    found, expected = arrays(tmp_path / "trained.npz"), arrays(of_theano / "trained.npz")
    assert found.keys() == expected.keys() and len(found) > 25
    for name in ("first", "last"):
        assert np.array_equal(found[name], expected[name]), f"{name} samples"
    for name, value in found.items():
        assert value == pytest.approx(expected[name], rel=2e-4, abs=1e-5), name
    assert_same_run(tmp_path / "half", of_theano / "whole")
    assert RunDirectory(tmp_path / "half").read_status()["engine"].startswith("pytensor")


@pytest.mark.slow
@needs_theano
@needs_jax
def test_theano_goes_on_with_a_run_begun_on_jax(of_theano, tmp_path):
    run_worker("pytensor", "jax-cpu", "until:2", tmp_path / "half")
    run_worker("theano", "cpu", "until:4", tmp_path / "half")
    assert_same_run(tmp_path / "half", of_theano / "whole")
    assert RunDirectory(tmp_path / "half").read_status()["engine"].startswith("theano")


ON_DEVICE = """
import jax, numpy as np
from bihm_repro.engine.symbolic import T, function, shared
from bihm_repro.models.build import build_model
from bihm_repro.recipes.recipe import ModelRecipe, Phase, TrainingRecipe
from bihm_repro.training.update import compile_update

model = build_model(ModelRecipe(layers=(4, 3)), 6)
update = compile_update(model, TrainingRecipe(), Phase(samples=3), 0)
x = np.ones((5, 6), np.float32)
update(x)
held = [p.get_value(borrow=True) for p in (*model.parameters, *update._state.values())]
assert all(isinstance(v, jax.Array) for v in held), "kept on the device"
assert all(v.dtype == np.float32 for v in held if v.ndim), "not widened"
figures = update(x)
assert all(v.is_deleted() for v in held), "overwritten where they were"
assert all(isinstance(v, float) for v in figures.values())
values = model.get_values()
assert all(type(v) is np.ndarray and np.isfinite(v).all() for v in values.values())

rows, inner, draw = T.lscalar(), T.lscalar(), T.lscalar()
outer, log_r, _ = model.log_z_terms(rows, inner + 1, 3, draw)
run = function([rows, inner, draw], [outer, log_r])
for n, k in ((5, 1), (7, 2)):
    a, b = run(n, k, 0)
    assert type(a) is np.ndarray and a.shape == (n,) and b.shape == (n, k + 1)
    assert a.dtype == b.dtype == np.float32
print("fine")
"""


@needs_jax
def test_on_jax_parameters_stay_and_counts_may_be_symbolic():
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", ON_DEVICE],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "BIHM_DEVICE": "jax-cpu"},
    )
    assert done.stdout == "fine\n", done.stderr[-2000:]


GROUPED = """
import functools, math
import numpy as np
from bihm_repro.datasets.bars import draw_bars
from bihm_repro.engine import symbolic
from bihm_repro.engine.step_functions import Steps
from bihm_repro.models.build import build_model
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.training.extensions import Extension
from bihm_repro.runs.checkpoint import divided
from bihm_repro.training.extensions.saving import pack
from bihm_repro.training.log import TrainingLog
from bihm_repro.training.session import Options, TrainingData, assemble

recipe = Recipe.from_dict({
    "dataset": "bars", "seed": 3, "model": {"layers": [12, 6]}, "training": {"batch_size": 50},
    "phases": [{"samples": 5, "learning_rate": 0.01, "max_epochs": 3, "average_over": 9}],
    "monitor": {"valid_samples": 5, "test_every": 0}})
data = TrainingData(draw_bars(430, 0), draw_bars(100, 1), fingerprint="bars")


class Moments(Extension):
    def __init__(self, pause_at=None):
        self.seen, self.pause_at = [], pause_at

    def after_batch(self, loop):
        self.seen.append(loop.log.status.updates)
        if loop.log.status.updates == self.pause_at:
            loop.log.request_pause("test")


def trained(seconds, pause_at=None, state=None):
    symbolic.Steps = functools.partial(Steps, seconds=seconds)
    model, moments = build_model(recipe.model, 16, recipe.seed), Moments(pause_at)
    loop = assemble(model, recipe, data, None, Options(quiet=True, extensions=(moments,)))
    if state is not None:
        loop.resume(TrainingLog.from_record(state[1]), divided(state[0]))
    loop.run()
    arrays, record = pack(loop)
    record["status"]["seconds"] = 0
    for row in record["rows"]:
        row["seconds"] = 0
    return moments.seen, (arrays, record)


whole_at, (whole, facts) = trained(math.inf)
single_at, single = trained(0)
assert single_at == list(range(1, 28)), single_at
assert 5 not in whole_at and max(np.diff(whole_at)) >= 4 and whole_at[-1] == 27, whole_at
_, half = trained(0, pause_at=5)
assert half[1]["status"]["updates"] == 5 and half[1]["status"]["batch"] == 5
rest_at, resumed = trained(math.inf, state=half)
assert len(rest_at) < 22 and rest_at[-1] == 27, rest_at
assert facts["status"]["finished"] and any(name.startswith("rule/adam.") for name in whole)
for arrays, record in (single, resumed):
    assert record == facts, (record, facts)
    assert arrays.keys() == whole.keys()
    for name, value in arrays.items():
        assert value.dtype == whole[name].dtype and np.array_equal(value, whole[name]), name
print("fine")
"""


@pytest.mark.slow
@needs_jax
def test_on_jax_the_groups_of_updates_change_no_bit_nor_does_a_pause_inside_one():
    done = subprocess.run(
        [sys.executable, "-c", GROUPED],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "BIHM_DEVICE": "jax-cpu"},
    )
    assert done.stdout == "fine\n", done.stderr[-2000:]


def gpu_is_there() -> bool:
    import jax

    return any(d.platform == "gpu" for d in jax.devices())


@needs_jax
def test_a_gpu_that_is_not_there_is_one_line_and_status_2(tmp_path):
    if gpu_is_there():
        pytest.skip("there is a GPU")
    (tmp_path / "toy.toml").write_text('dataset = "bars"\n[model]\nlayers = [3]\n')
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bihm_repro",
            "train",
            str(tmp_path / "toy.toml"),
            "--out",
            str(tmp_path / "run"),
            "--data",
            str(tmp_path / "data"),
            "--device",
            "gpu",
        ],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": ""},
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "device gpu: JAX finds no GPU here" in done.stderr


@pytest.mark.skipif(device != "cpu", reason="C code is for device cpu")
def test_fused_ops_and_products_run_as_c_code():
    """Nothing falls back to Python, and matrix products reach BLAS."""
    from bihm_repro.ops.bernoulli import score_layer

    x, w = T.matrix(), shared(np.ones((3, 2), np.float32))
    scored = score_layer(T.dot(x, w), x, w, T.zeros((2,), dtype="float32"), residual=True)
    run = function([x], list(scored))
    thunks = {type(node.op).__name__: thunk for node, thunk in zip(run.vm.nodes, run.vm.thunks)}
    assert "ScoreLayer" in thunks and {"Gemm", "Dot22"} & set(thunks)
    assert all(hasattr(thunk, "cthunk") for thunk in thunks.values())


def test_the_users_flags_win(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import bihm_repro.engine.symbolic, pytensor, os;"
            "print(pytensor.config.base_compiledir, pytensor.config.floatX,"
            "      os.environ['PYTENSOR_FLAGS'])",
        ],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTENSOR_FLAGS": f"base_compiledir={tmp_path}"},
    )
    assert done.stdout.split() == [str(tmp_path), "float32", f"base_compiledir={tmp_path}"]

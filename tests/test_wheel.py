"""A new user's first steps: the wheel in an environment of its own, in an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bihm_repro import __version__

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "bihm_repro"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def run(*command, cwd, **environment):
    """Run a command as from a new terminal; returns what it prints."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the sources without a network."""
    pytest.importorskip("wheel")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("bihm_repro", "run_exps"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "-w", out, source]
    run(sys.executable, "-m", "pip", "wheel", "-q", *options, cwd=out)
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A new environment with the wheel, in which the other packages of this one are seen."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    options = ["install", "-q", "--no-deps", "--no-index", wheel]
    run(sys.executable, "-m", "pip", "--python", python, *options, cwd=folder)
    packages = run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder
    )
    here = sysconfig.get_path("purelib")
    (Path(packages.strip()) / "other.pth").write_text(f"{here}\n")
    return folder / "bin"


def test_the_wheel_has_everything_that_the_package_reads(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    patterns = ("pretrained/*.*", "ops/*.h", "**/templates/*")
    expected = {path.relative_to(ROOT) for pattern in patterns for path in PACKAGE.glob(pattern)}
    expected |= {
        "bihm_repro" / path.relative_to(ROOT) for path in (ROOT / "run_exps").rglob("*.toml")
    }
    assert len(expected) > 50 and {path.as_posix() for path in expected} <= names
    assert {"bihm_repro/pretrained/mnist.npz", "bihm_repro/pretrained/mushrooms.json"} <= names
    assert wheel.stat().st_size < 10 * 2**20


def write_table(path):
    """A table with row numbers, 12 binary features and a label."""
    random = np.random.default_rng(0)
    rows = random.integers(0, 2, (100, 12))
    lines = [f"{i + 100};{';'.join(map(str, row))};{'ab'[i % 2]}" for i, row in enumerate(rows)]
    header = ";".join(["id", *(f"pixel{i}" for i in range(12)), "class"])
    path.write_text("\n".join([header, *lines]) + "\n")


def test_the_first_steps_in_an_empty_folder(installed, tmp_path):
    def bihm(*words):
        return run(installed / "bihm", *words, cwd=tmp_path)

    def python(text):
        return run(installed / "python", "-c", text, cwd=tmp_path)

    assert bihm("--version") == f"bihm-repro {__version__}\n"
    where = python("import bihm_repro; print(bihm_repro.__file__)")
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert "all is well" in bihm("doctor", "--quick")
    assert "\nmushrooms " in bihm("recipes")
    assert 'dataset = "binarized_mnist"' in bihm("recipes", "show", "mnist")
    shape = "from bihm_repro import load_model; print(load_model('mnist').sample(9).shape)"
    assert python(shape) == "(9, 784)\n"

    write_table(tmp_path / "mine.csv")
    bihm("data", "import", "mine.csv", "--name", "mine", "--drop", "id", "--label", "class")
    bihm("recipes", "new", "--data", "mine")
    small = ["model.layers=[4]", "phases=[{samples=2, max_epochs=1}]", "monitor.test_every=0"]
    small += ["evaluation.samples=[1]", "evaluation.z_samples=1000", "evaluation.ess_samples=0"]
    changes = [word for setting in small for word in ("--set", setting)]
    said = bihm("train", "mine.toml", "--out", "results/mine", *changes)
    assert "mine test, 10 examples; -log p " in said
    assert bihm("sample", "results/mine", "--n", "5", "--gibbs", "2").split() == [
        f"results/mine/samples/samples-2.{suffix}" for suffix in ("npy", "csv")
    ]
    assert np.load(tmp_path / "results/mine/samples/samples-2.npy").shape == (5, 12)
    bihm("inpaint", "results/mine", "--shape", "3x4", "--gibbs", "2", "--n", "2")
    assert "results/mine/demo.html" in bihm("demo", "results/mine")
    created = {path.name for path in tmp_path.iterdir()}
    assert created == {"mine.csv", "mine.toml", "data", "results"}

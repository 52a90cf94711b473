"""Choosing and configuring the engine: BLAS, compiler, threads, cache folder, and ``doctor``."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from bihm_repro.cli.main import main
from bihm_repro.engine import blas, choice, compiler, symbolic
from bihm_repro.engine import threads as engine_threads
from bihm_repro.errors import InputError, SetupError


def python(code: str, **environment) -> subprocess.CompletedProcess:
    """Run ``code`` in a new process, where the engine is not loaded yet."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def test_only_the_engine_imports_the_engine():
    """Reading the source: no other module names theano or pytensor in an import."""
    root = os.path.dirname(choice.__file__)
    package = os.path.dirname(root)
    offenders = []
    for folder, _, files in os.walk(package):
        for name in files:
            path = os.path.join(folder, name)
            if not name.endswith(".py") or path.startswith(root) or name.startswith("jax_"):
                continue
            with open(path, encoding="utf-8") as handle:
                lines = [line.strip() for line in handle]
            offenders += [
                path
                for line in lines
                if line.startswith(
                    ("import theano", "from theano", "import pytensor", "from pytensor")
                )
            ]
    assert offenders == []


def test_import_of_the_package_loads_no_engine():
    done = python(
        "import bihm_repro, bihm_repro.cli.main, sys; "
        "print([m for m in sys.modules if m in ('theano', 'pytensor', 'jax')])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_unknown_engines_and_devices_are_named(monkeypatch):
    monkeypatch.setenv("BIHM_ENGINE", "torch")
    with pytest.raises(InputError, match="'torch' is unknown: use theano or pytensor"):
        choice.engine_name()
    monkeypatch.setenv("BIHM_ENGINE", "theano")
    monkeypatch.setenv("BIHM_DEVICE", "gpu")
    with pytest.raises(InputError, match="GPUs are reached with --engine pytensor"):
        choice.device_name()


@pytest.mark.parametrize(
    ("installed", "version", "expected"),
    [
        ({"theano", "pytensor"}, (3, 11), "theano"),
        ({"pytensor"}, (3, 11), "pytensor"),
        ({"theano", "pytensor"}, (3, 12), "pytensor"),
        (set(), (3, 11), "theano"),
        (set(), (3, 12), "pytensor"),
    ],
)
def test_the_default_is_the_engine_that_is_installed(monkeypatch, installed, version, expected):
    monkeypatch.delenv("BIHM_ENGINE", raising=False)
    monkeypatch.setattr(
        choice.importlib.util, "find_spec", lambda name: object() if name in installed else None
    )
    monkeypatch.setattr(choice.sys, "version_info", version)
    assert choice.engine_name() == expected


BROKEN = """
import numpy, sys
numpy.__version__ = "1.26.4"
sys.meta_path.insert(0, type("Broken", (), {"find_spec": staticmethod(
    lambda name, *rest: (_ for _ in ()).throw(AttributeError("module 'numpy' has no 'bool'"))
    if name in ("theano", "pytensor") else None)}))
from bihm_repro.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_an_engine_that_cannot_be_imported_is_one_line_with_the_fix():
    done = subprocess.run(
        [sys.executable, "-c", BROKEN, "doctor"],
        capture_output=True,
        text=True,
        env={**os.environ, "BIHM_ENGINE": symbolic.engine},
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert (
        f"problem: {symbolic.engine} cannot be imported with numpy 1.26.4 "
        "(AttributeError: module 'numpy' has no 'bool'): make setup"
    ) in done.stdout


def test_doctor_names_packages_that_do_not_fit(monkeypatch, capsys):
    from importlib import metadata

    from bihm_repro.cli import doctor

    monkeypatch.setattr(
        metadata,
        "requires",
        lambda name: [
            "numpy>=1.2",
            "scipy==0.1; extra == 'theano'",
            "scipy==0.2; extra == 'pytensor'",
            "no-such-package>=3",
            "other; extra == 'test'",
        ],
    )
    monkeypatch.setenv("BIHM_ENGINE", "pytensor")
    first, second = doctor._package_problems()
    assert first.startswith("scipy ")
    assert first.endswith("==0.2 is needed: pip install 'scipy==0.2'")
    assert second == "no-such-package is not installed: pip install 'no-such-package>=3'"


def test_a_cache_folder_that_cannot_be_used_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "bihm_repro", "doctor", "--quick"],
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")},
    )
    assert done.returncode == 1
    assert f"problem: XDG_CACHE_HOME={tmp_path / 'file'} cannot be written to" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_cache_folder_may_have_any_name(tmp_path):
    folder = tmp_path / "a,b #c'd"
    done = python(
        f"import bihm_repro.engine.symbolic, {symbolic.engine} as e; "
        "print(e.config.base_compiledir)",
        XDG_CACHE_HOME=str(folder),
    )
    assert done.stdout.strip() == str(folder / "bihm-repro" / symbolic.engine), done.stderr


def test_long_work_is_announced_and_short_work_is_not(capsys):
    from bihm_repro.engine.notices import announce, silence

    def wait(text, seconds):
        with announce(text, after=0.05):
            threading.Event().wait(seconds)

    wait("quick", 0)
    wait("slow", 0.5)
    with silence():
        wait("silenced", 0.2)
    with silence(False):
        wait("slow again", 0.5)
    assert capsys.readouterr().err == "slow\nslow again\n"


def test_threads_are_checked(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "none")
    with pytest.raises(InputError, match="OMP_NUM_THREADS='none'"):
        engine_threads.thread_count()
    monkeypatch.setenv("OMP_NUM_THREADS", "3,1")
    assert engine_threads.thread_count() == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert engine_threads.thread_count() == engine_threads.available_cores()


def test_a_blas_is_found_without_any_flags():
    found = blas.find_blas()
    assert found is not None
    done = python(
        "from bihm_repro.engine.blas import find_blas; print(find_blas().library)",
        THEANO_FLAGS="",
        PYTENSOR_FLAGS="",
    )
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


def test_the_users_own_blas_wins(monkeypatch):
    monkeypatch.setenv("THEANO_FLAGS", "floatX=float32,blas__ldflags=-L/opt/lib -lmine,mode=X")
    found = blas.find_blas()
    assert (found.folder, found.library, found.origin) == (
        "/opt/lib",
        "libmine.so",
        "named by the user's flags",
    )


def test_no_compiler_is_an_error_not_a_slow_run(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(SetupError, match="no C\\+\\+ compiler found: install g\\+\\+"):
        compiler.require_compiler()
    monkeypatch.setenv("BIHM_ALLOW_NO_COMPILER", "1")
    assert compiler.require_compiler() == ""


def test_no_compiler_on_the_command_line_is_one_line_and_status_1():
    done = subprocess.run(
        [sys.executable, "-m", "bihm_repro", "doctor"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": "/nowhere", "CXX": ""},
    )
    assert done.returncode == 1
    assert "problem: no C++ compiler found" in done.stdout
    assert "Traceback" not in done.stderr


def test_doctor_is_well_here(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("engine", symbolic.engine, "BLAS", "GFLOP/s", "compiler", "threads", "data"):
        assert word in out
    assert out.rstrip().endswith("all is well")


def test_products_go_through_the_compiled_engine():
    a, b = symbolic.T.matrix(), symbolic.T.matrix()
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = symbolic.function([a, b], symbolic.T.dot(a, b))(x, x.T)
    assert np.array_equal(found, x @ x.T)


@pytest.mark.parametrize(
    "arguments",
    [["train", "no-such-recipe"], ["evaluate", "no-such-run"], ["evaluate", ".", "--threads", "0"]],
)
def test_bad_input_is_one_line_and_status_2(arguments, capsys):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("bihm: error: ") and err.count("\n") == 1


def test_a_full_disk_is_one_line_with_the_fix(monkeypatch, capsys):
    from bihm_repro.cli import tables

    def full(args):
        raise OSError(28, "No space left on device", "results/tables/uci.md")

    monkeypatch.setattr(tables, "run", full)
    assert main(["tables"]) == 2
    err = capsys.readouterr().err
    assert "results/tables/uci.md: No space left on device; free some space" in err

"""``bihm doctor``: describes this machine's engine, BLAS, compiler and data, and names fixes."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import timeit
from collections.abc import Callable
from pathlib import Path

from bihm_repro import __version__
from bihm_repro.cli.arguments import add_shared
from bihm_repro.errors import InputError, SetupError

HELP = "show engine, device, BLAS and its speed, compiler, threads and data; exit 1 with the fix"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_shared(parser, "data", "engine", "device")
    parser.add_argument("--quick", action="store_true", help="do not measure the speed")


def run(args: argparse.Namespace) -> int:
    """Print one line per fact; return 1 where something that is needed is missing."""
    from bihm_repro.engine.choice import choose

    choose(args.engine, args.device)
    _show("bihm-repro", __version__)
    _show("python", f"{platform.python_version()} ({sys.executable})")
    problems = [
        *_attempt(_package_problems),
        *_attempt(lambda: _engine_problems(args.quick)),
        *_attempt(lambda: _show_data(Path(args.data))),
    ]
    for problem in problems:
        print(f"problem: {problem}")
    print("all is well" if not problems else f"{len(problems)} problem(s) to fix")
    return 1 if problems else 0


def _show(name: str, text: str) -> None:
    print(f"{name:<11}{text}")


def _attempt(check: Callable[[], list[str]]) -> list[str]:
    """Return the problems that ``check`` finds; a failure of its own is one of them."""
    try:
        return check()
    except (SetupError, InputError) as error:
        return [str(error)]
    except Exception as error:  # a broken package may raise anything
        first = (str(error).splitlines() or [""])[0]
        return [
            f"{type(error).__name__}: {first}; a package is broken: make setup, or pip "
            "install --force-reinstall bihm-repro with the engine in brackets"
        ]


def _package_problems() -> list[str]:
    """Return installed versions that do not fit what this package requires for the engine."""
    from importlib import metadata

    from packaging.requirements import Requirement

    from bihm_repro.engine.choice import engine_name

    problems = []
    for line in metadata.requires("bihm-repro") or []:
        needed = Requirement(line)
        if needed.marker and not needed.marker.evaluate({"extra": engine_name()}):
            continue
        rule = f"{needed.name}{needed.specifier}"
        try:
            version = metadata.version(needed.name)
        except metadata.PackageNotFoundError:
            problems.append(f"{needed.name} is not installed: pip install '{rule}'")
            continue
        if not needed.specifier.contains(version, prereleases=True):
            problems.append(
                f"{needed.name} {version} is installed and {needed.specifier} is "
                f"needed: pip install '{rule}'"
            )
    return problems


def _engine_problems(quick: bool) -> list[str]:
    """Describe the engine; return what has to be fixed."""
    from bihm_repro.engine.compiler import compiler_version, find_compiler
    from bihm_repro.engine.threads import available_cores

    compiler = find_compiler()
    _show("compiler", f"{compiler} ({compiler_version(compiler)})" if compiler else "none")
    from bihm_repro.engine import symbolic

    _show("engine", f"{symbolic.engine} {symbolic.version}")
    device = symbolic.device
    if symbolic.on_jax:
        from bihm_repro.engine.jax_device import describe

        device += f" ({describe()})"
    _show("device", device)
    _show("threads", f"{symbolic.threads} of {available_cores()} cores")
    problems = []
    if symbolic.on_jax:
        _show("BLAS", "JAX's own")
    elif symbolic.blas is None:
        problems.append("no BLAS library: install scipy from its wheel, or libopenblas-dev")
    else:
        _show("BLAS", f"{symbolic.blas.path or symbolic.blas.library} ({symbolic.blas.origin})")
    if not quick:
        _show("sgemm", f"{_sgemm_gflops():.0f} GFLOP/s measured, 1024 x 1024")
    return problems


def _sgemm_gflops(size: int = 1024, rounds: int = 5) -> float:
    """Return the best speed of a float32 matrix product through the engine's BLAS."""
    import numpy as np

    from bihm_repro.engine.symbolic import T, function

    a, b = T.matrix(dtype="float32"), T.matrix(dtype="float32")
    multiply, x = function([a, b], T.dot(a, b)), np.ones((size, size), dtype=np.float32)
    seconds = min(timeit.repeat(lambda: multiply(x, x), number=1, repeat=rounds))
    return 2 * size**3 / seconds / 1e9


def _show_data(folder: Path) -> list[str]:
    from bihm_repro.datasets.registry import DATASETS

    found = sorted(path.stem for path in folder.glob("*.hdf5"))
    missing = sorted(set(DATASETS) - set(found))
    _show("data", f"{folder}: {', '.join(found) or 'none yet'}")
    if missing:
        _show("", f"missing: {', '.join(missing)}; fetch with: bihm data NAME")
    mirror = os.environ.get("BIHM_DATA_MIRROR")
    if mirror:
        _show("mirror", mirror)
    return []

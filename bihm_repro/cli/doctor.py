"""``bihm doctor``: what this machine offers, and the fix for what is missing."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path

from bihm_repro import __version__
from bihm_repro.errors import InputError, SetupError

__all__ = ["HELP", "add_arguments", "run"]

HELP = "say engine, device, BLAS and its speed, compiler, threads and data; exit 1 with the fix"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--data", default="data", help="folder of the converted data sets")
    parser.add_argument("--engine", help="theano or pytensor")
    parser.add_argument("--device", help="cpu; pytensor also: jax-cpu, gpu")


def run(args: argparse.Namespace) -> int:
    """Print a line a fact; 1 where something needed is missing."""
    from bihm_repro.engine.choice import choose

    choose(args.engine, args.device)
    _say("bihm-repro", __version__)
    _say("python", f"{platform.python_version()} ({sys.executable})")
    try:
        problems = _engine_lines()
    except (SetupError, InputError) as error:
        problems = [str(error)]
    _data_lines(Path(args.data))
    for problem in problems:
        print(f"problem: {problem}")
    print("all is well" if not problems else f"{len(problems)} problem(s) to mend")
    return 1 if problems else 0


def _say(name: str, text: str) -> None:
    print(f"{name:<11}{text}")


def _engine_lines() -> list[str]:
    """Describe the engine; returns what has to be mended."""
    from bihm_repro.engine.choice import JAX_DEVICES
    from bihm_repro.engine.compiler import compiler_version, find_compiler
    from bihm_repro.engine.threads import available_cores

    compiler = find_compiler()
    _say("compiler", f"{compiler} ({compiler_version(compiler)})" if compiler else "none")
    from bihm_repro.engine import symbolic
    from bihm_repro.engine.speed import sgemm_gflops

    _say("engine", f"{symbolic.engine} {symbolic.version}")
    on_jax = symbolic.device in JAX_DEVICES
    _say("device", f"{symbolic.device} ({_jax_device()})" if on_jax else symbolic.device)
    _say("threads", f"{symbolic.threads} of {available_cores()} cores")
    problems = []
    if on_jax:
        _say("BLAS", "JAX's own")
    elif symbolic.blas is None:
        problems.append("no BLAS library: install scipy from its wheel, or libopenblas-dev")
    else:
        where = symbolic.blas.path or symbolic.blas.library
        _say("BLAS", f"{where} ({symbolic.blas.origin})")
    _say("sgemm", f"{sgemm_gflops():.0f} GFLOP/s measured, 1024 x 1024")
    return problems


def _jax_device() -> str:
    from bihm_repro.engine.jax_device import describe

    return describe()


def _data_lines(folder: Path) -> None:
    from bihm_repro.datasets.catalogue import CATALOGUE

    found = sorted(path.stem for path in folder.glob("*.hdf5"))
    missing = sorted(set(CATALOGUE) - set(found))
    _say("data", f"{folder}: {', '.join(found) or 'none yet'}")
    if missing:
        _say("", f"not there: {', '.join(missing)}; fetch with: bihm data NAME")
    mirror = os.environ.get("BIHM_DATA_MIRROR")
    if mirror:
        _say("mirror", mirror)

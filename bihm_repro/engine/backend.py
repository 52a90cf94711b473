"""Configures theano-pymc or PyTensor, then imports it: the settings have to precede the import.

Device ``cpu`` compiles the C code of the fused Ops. ``jax-cpu`` and ``gpu`` (PyTensor only)
compile the graph with JAX (see ``jax_device``) and need no C++ compiler.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from bihm_repro.engine.blas import Blas, find_blas
from bihm_repro.engine.choice import JAX_DEVICES
from bihm_repro.engine.compiler import prepare_cache, require_compiler
from bihm_repro.engine.notices import announce
from bihm_repro.engine.threads import prepare_threads
from bihm_repro.errors import SetupError

__all__ = ["Backend", "load", "install_command"]

_OP_MODULES = {"theano": "theano.graph.op", "pytensor": "pytensor.link.c.op"}


@dataclass(frozen=True)
class Backend:
    """An imported engine: its names, and how it was configured."""

    module: Any
    T: Any
    Apply: Any
    COp: Any
    MethodNotDefined: Any
    blas: Blas | None
    threads: int
    on_jax: bool


def load(engine: str, device: str) -> Backend:
    """Configure and import ``engine`` for ``device``."""
    if engine == "theano" and sys.version_info >= (3, 12):
        raise SetupError(
            "theano-pymc ends at Python 3.11 and this is "
            f"{sys.version_info.major}.{sys.version_info.minor}: use --engine "
            "pytensor, or make PYTHON=python3.11"
        )
    on_jax = device in JAX_DEVICES
    compiler = "" if on_jax else require_compiler()
    threads = prepare_threads()
    blas = _find_blas()
    if on_jax:
        from bihm_repro.engine import jax_device

        jax_device.prepare(device, threads)
    elif blas is None:
        warnings.warn(
            "no BLAS library found: matrix products will be slow; install scipy from "
            "its wheel, or libopenblas-dev",
            RuntimeWarning,
            stacklevel=2,
        )
    settings = _settings(engine, compiler, blas)
    with announce(f"loading {engine} (up to a minute the first time)"):
        module = _import(engine, settings)
    return Backend(
        module,
        importlib.import_module(f"{engine}.tensor"),
        importlib.import_module(f"{engine}.graph.basic").Apply,
        importlib.import_module(_OP_MODULES[engine]).COp,
        importlib.import_module(f"{engine}.graph.utils").MethodNotDefined,
        blas,
        threads,
        on_jax,
    )


def install_command(engine: str) -> str:
    """Return the advice that restores the packages that an engine needs."""
    return f"make setup ENGINE={engine}, or pip install 'bihm-repro[{engine}]'"


def _find_blas() -> Blas | None:
    """Find the BLAS; scipy, which is imported for that, may be broken."""
    try:
        return find_blas()
    except Exception as error:
        raise SetupError(
            f"scipy cannot be imported ({_describe(error)}); it does not fit the "
            f"installed numpy ({_numpy_version()}): reinstall both with "
            "pip install --force-reinstall numpy scipy"
        ) from None


def _settings(engine: str, compiler: str, blas: Blas | None) -> dict[str, str]:
    settings = {
        "floatX": "float32",
        "device": "cpu",
        "openmp": "False",
        "cxx": compiler,
        "blas__ldflags": blas.flags if blas else "",
        "gcc__cxxflags": "-O3 -fno-math-errno -fno-trapping-math",
        "allow_gc": "False",
        "base_compiledir": str(prepare_cache(engine)),
        # Seconds to wait for the cache while another process compiles: workers start together.
        "compile__timeout": "3600",
        "compute_test_value": "off",
    }
    if engine == "pytensor":
        settings.update(mode="Mode", linker="cvm" if compiler else "py")
    return settings


def _quoted(value: str) -> str:
    """Escape what separates or quotes settings in an engine's flags."""
    return re.sub(r"""([,'"#\\])""", r"\\\1", value)


def _import(engine: str, settings: dict[str, str]) -> ModuleType:
    """Import ``engine`` with ``settings``; the user's own flags take precedence over them."""
    variable = f"{engine.upper()}_FLAGS"
    given = os.environ.get(variable)
    ours = ",".join(f"{key}={_quoted(value)}" for key, value in settings.items())
    os.environ[variable] = f"{ours},{given or ''}".rstrip(",")
    # Each engine warns that it cannot test the BLAS library itself; find_blas has tested it.
    logging.getLogger(f"{engine}.tensor.blas").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(engine)
            importlib.import_module(f"{engine}.tensor")
    except Exception as error:  # theano raises AttributeError where numpy is too new for it
        raise SetupError(
            f"{engine} cannot be imported with numpy {_numpy_version()} "
            f"({_describe(error)}): {install_command(engine)}"
        ) from None
    finally:
        if given is None:
            del os.environ[variable]
        else:
            os.environ[variable] = given
    # theano warns that it cannot add details to a MemoryError; the error itself is enough.
    warnings.filterwarnings("ignore", message=".*does not allow us to add extra error message")
    return module


def _numpy_version() -> str:
    try:
        import numpy

        return numpy.__version__
    except Exception:
        return "missing"


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"

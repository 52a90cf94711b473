"""The requested engine and device: ``BIHM_ENGINE`` and ``BIHM_DEVICE``, or the defaults."""

from __future__ import annotations

import importlib.util
import os
import sys

from bihm_repro.errors import InputError

__all__ = ["ENGINES", "DEVICES", "JAX_DEVICES", "engine_name", "device_name", "choose"]

ENGINES = ("theano", "pytensor")
JAX_DEVICES = ("jax-cpu", "gpu")
DEVICES = {"theano": ("cpu",), "pytensor": ("cpu", *JAX_DEVICES)}


def engine_name() -> str:
    """Return the requested engine, or the first installed one that runs on this Python."""
    name = os.environ.get("BIHM_ENGINE") or _default_engine()
    if name not in ENGINES:
        raise InputError(
            f"engine {name!r} is unknown: use {' or '.join(ENGINES)} (--engine or BIHM_ENGINE)"
        )
    return name


def _default_engine() -> str:
    """Return theano where it is installed and Python is 3.11 or earlier, else pytensor."""
    usable = ENGINES if sys.version_info < (3, 12) else ("pytensor",)
    installed = [name for name in usable if importlib.util.find_spec(name) is not None]
    return (installed or usable)[0]


def device_name() -> str:
    """Return the requested device; InputError where the engine does not have it."""
    engine = engine_name()
    name = os.environ.get("BIHM_DEVICE") or "cpu"
    allowed = DEVICES[engine]
    if name not in allowed:
        hint = "" if engine == "pytensor" else "; GPUs are reached with --engine pytensor"
        raise InputError(
            f"device {name!r} is not one of engine {engine}: use {', '.join(allowed)}{hint}"
        )
    return name


def choose(
    engine: str | None = None, device: str | None = None, threads: int | None = None
) -> None:
    """Record the choices of the command line; to be called before the engine is imported."""
    for variable, value in (("BIHM_ENGINE", engine), ("BIHM_DEVICE", device)):
        if value:
            os.environ[variable] = value
    if threads is not None:
        if threads < 1:
            raise InputError(f"--threads {threads}: at least 1 is needed")
        os.environ["OMP_NUM_THREADS"] = str(threads)
    device_name()

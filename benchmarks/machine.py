"""What the measurements were made on and with."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from benchmarks.contenders import PEERS, ROOT, WorkerError, find_python
from bihm_repro.engine.blas import find_blas

__all__ = ["describe"]

PACKAGES = ("numpy", "scipy", "theano-pymc")
PEER_PACKAGES = ("jax", "jaxlib", "torch", "numpy")


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_gb() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def _versions() -> dict:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _peer_versions() -> dict:
    """Versions in the peers' own environment; empty where there is none."""
    code = f"from importlib.metadata import version as v; print(*map(v, {PEER_PACKAGES!r}))"
    try:
        done = subprocess.run([find_python(PEERS), "-c", code], capture_output=True, text=True)
    except WorkerError:
        return {}
    return dict(zip(PEER_PACKAGES, done.stdout.split()))


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT
    )
    return done.stdout.strip()


def describe() -> dict:
    """Processor, memory, versions, commit, time and load."""
    blas = find_blas()
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": _versions(),
        "peer_packages": _peer_versions(),
        "blas": blas.library if blas else "none",
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "load_average_at_start": os.getloadavg()[0],
    }

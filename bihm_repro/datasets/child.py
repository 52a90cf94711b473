"""Reading a file in a child process, with limits on time and memory.

A damaged HDF5 or MATLAB file can crash, hang or exhaust the library that reads it. A file of
unknown origin is therefore read by another process, which writes its arrays to an npz file.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np

from bihm_repro.datasets.checks import MAX_BYTES

__all__ = ["limit_resources", "main", "run_reader"]

_SECONDS = 120
_CODE = (
    "import sys; reader, path, output, *sys.path = sys.argv[1:]; "
    "from bihm_repro.datasets.child import main; main(reader, path, output)"
)


def run_reader(reader: str, path: Path, output: Path) -> None:
    """Write the arrays that ``reader`` (``module:function``) reads from ``path`` to ``output``.

    Raises ValueError where the child refuses the file, crashes or takes too long.
    """
    command = [sys.executable, "-c", _CODE, reader, os.path.abspath(path), str(output), *sys.path]
    # The buffers of many threads would count as memory.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(
                command, stderr=errors, timeout=_SECONDS, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"reading it took more than {_SECONDS} seconds") from None
        errors.seek(0)
        lines = errors.read(100_000).decode(errors="replace").strip().splitlines()
    if done.returncode:
        known = done.returncode == 2 and lines
        raise ValueError(lines[-1] if known else "it crashed the library that reads it")


def main(reader: str, path: str, output: str) -> None:
    """Run ``reader`` within limits; this is what the child does. It exits with 2 on bad files."""
    module, _, function = reader.partition(":")
    read = getattr(importlib.import_module(module), function)
    limit_resources()
    try:
        # A prefix, since savez has a parameter named file.
        np.savez(output, **{f"={name}": array for name, array in read(Path(path)).items()})
    except Exception as error:
        print(" ".join(str(error).split())[:300] or type(error).__name__, file=sys.stderr)
        raise SystemExit(2) from None


def limit_resources() -> None:
    """Limit the memory, the files and the processor time of this process."""
    try:
        import resource
    except ImportError:  # Not on Windows; the parent's time limit remains.
        return
    for kind, limit in (
        (resource.RLIMIT_AS, 2 * MAX_BYTES),
        (resource.RLIMIT_FSIZE, 2 * MAX_BYTES),
        (resource.RLIMIT_CPU, _SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError, OSError):  # Some systems do not allow a limit to be set.
            resource.setrlimit(kind, (limit, limit))

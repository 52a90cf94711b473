"""Reading foreign files as the package does, with tiny limits and without new interpreters.

The package reads HDF5 and MATLAB files in a new process. Here the worker forks one instead, which
runs the same code: a crash of the library in it is a refusal, as it is for a user.
"""

from __future__ import annotations

import os
from pathlib import Path

from bihm_repro.datasets import checks, child, readers, user_data

LARGEST = 32 << 20
CPU_SECONDS = 10


def use_tiny_limits() -> None:
    """Lower the limits of size and time, and fork the child that reads a file."""
    checks.MAX_BYTES = readers.MAX_BYTES = user_data.MAX_BYTES = LARGEST
    child._SECONDS = CPU_SECONDS
    readers.run_reader = _run_reader


def _run_reader(reader: str, path: Path, output: Path) -> None:
    errors = output.with_suffix(".err")
    process = os.fork()
    if process == 0:
        status = 1
        try:
            handle = os.open(errors, os.O_WRONLY | os.O_CREAT)
            os.dup2(handle, 2)
            child.main(reader, os.path.abspath(path), str(output))
            status = 0
        except SystemExit as error:
            status = int(error.code or 0)
        finally:
            os._exit(status)
    status = os.waitpid(process, 0)[1]
    if status:
        lines = errors.read_text(errors="replace").strip().splitlines()
        known = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 2 and lines
        raise ValueError(lines[-1] if known else "it crashed the library that reads it")

"""One process at a time in a run folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bihm_repro.errors import InputError

__all__ = ["locked"]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the lock goes with the process, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    with open(path, "a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_current(handle, path):  # the folder was replaced in between
                raise BlockingIOError
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read(20).strip() or "unknown"
            raise InputError(
                f"{folder}: process {holder} is working on this run folder; "
                "wait until it ends, or choose another with --out"
            ) from None
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def _is_current(handle: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), os.stat(path))
    except FileNotFoundError:
        return False

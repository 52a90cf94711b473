"""Faults of the file system, at a chosen operation: the process ends, or the disk refuses.

Operations are opening, writing, flushing, renaming and removing. ``exit`` ends the process at once,
as a kill does: half of what was being written is in the file. ``power`` does the same, and what
was not flushed to the disk is cut. ``full`` refuses all writing from then on (ENOSPC), ``error``
refuses once (EIO).
"""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODES = ("exit", "power", "full", "error")
DIED = 77


class Faults:
    """Counts file operations of this process below ``root``, and acts at number ``at``."""

    def __init__(self, root: Path, at: int | None = None, mode: str = "exit") -> None:
        """Count only, where ``at`` is None."""
        self.root, self.at, self.mode = str(root), at, mode
        self.count = 0
        self.unflushed: set[int] = set()

    def install(self) -> None:
        """Replace the functions of this process; made for a forked child, nothing is restored."""
        self._fsync = os.fsync
        builtins.open = io.open = self._opening(io.open)  # type: ignore[assignment]
        os.fsync = self._flushing  # type: ignore[assignment]
        os.replace = self._counted(os.replace, "replace")  # type: ignore[assignment]
        os.rename = self._counted(os.rename, "rename")  # type: ignore[assignment]
        Path.unlink = self._counted(Path.unlink, "unlink")  # type: ignore[assignment]

    def step(self, kind: str, torn: Callable[[], Any] = lambda: None) -> None:
        """Count one operation; ``torn`` does a part of it before the process ends."""
        self.count += 1
        if self.at is None or self.count < self.at:
            return
        if self.mode in ("exit", "power"):
            torn()
            if self.mode == "power":
                self._lose_unflushed()
            os._exit(DIED)
        if self.mode == "full" and kind in ("write", "open"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.mode == "error" and self.count == self.at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _counted(self, original: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            self.step(kind)
            return original(*args, **kwargs)

        return operation

    def _flushing(self, handle: int) -> None:
        self.step("fsync")
        self._fsync(handle)
        self.unflushed.discard(os.fstat(handle).st_ino)

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            ours = not isinstance(file, int) and os.fspath(file).startswith(self.root)
            if not ours or not set(mode) & set("wax+"):
                return original(file, mode, *args, **kwargs)
            self.step("open")
            return _Handle(original(file, mode, *args, **kwargs), self)

        return operation

    def _lose_unflushed(self) -> None:
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                if os.stat(path).st_ino in self.unflushed:
                    os.truncate(path, os.path.getsize(path) // 2)


class _Handle:
    """A file that counts what is written to it."""

    def __init__(self, handle: Any, faults: Faults) -> None:
        self._handle, self._faults = handle, faults

    def write(self, data: Any) -> Any:
        self._faults.unflushed.add(os.fstat(self._handle.fileno()).st_ino)
        self._faults.step("write", lambda: self._tear(data))
        return self._handle.write(data)

    def _tear(self, data: Any) -> None:
        self._handle.write(data[: len(data) // 2])
        self._handle.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *error: Any) -> None:
        self._handle.close()

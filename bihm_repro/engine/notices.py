"""Notices on standard error about work that takes longer than a second, such as a compilation."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["announce", "silence"]

_silenced = 0


@contextmanager
def announce(text: str, after: float = 1.0) -> Iterator[None]:
    """Print ``text`` to standard error if the block runs longer than ``after`` seconds."""
    timer = threading.Timer(after, _write, (text, sys.stderr))
    timer.daemon = True
    if not _silenced:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def silence(active: bool = True) -> Iterator[None]:
    """Print no notices inside the block."""
    global _silenced
    _silenced += active
    try:
        yield
    finally:
        _silenced -= active


def _write(text: str, stream) -> None:
    try:
        print(text, file=stream, flush=True)
    except (OSError, ValueError):
        pass  # A closed stream must not disturb the work that is announced.

"""Writing files so that a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["written_atomically", "write_text", "write_json"]


@contextmanager
def written_atomically(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it over ``path`` when the block succeeds.

    The temporary file keeps the suffix of ``path`` and is removed when the block fails.

    >>> with written_atomically("results/run/log.csv") as temporary:   # doctest: +SKIP
    ...     frame.to_csv(temporary)
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}-{secrets.token_hex(4)}{path.suffix}")
    try:
        yield temporary
        with open(temporary, "rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` atomically."""
    with written_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as indented JSON to ``path`` atomically; NaN is refused, not written."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")

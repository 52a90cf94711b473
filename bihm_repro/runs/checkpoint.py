"""Checkpoints: named arrays and a JSON record in one .npz file, without pickles.

A checkpoint replaces its predecessor only when it is complete on the disk, and the predecessor
stays beside it as ``<name>.previous.npz``: at whatever moment a process is killed, one complete
checkpoint can be read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.files import parse_json
from bihm_repro.progress import say
from bihm_repro.runs.arrays import Header, check_headers, previous_of, read_arrays, write_arrays

__all__ = [
    "Checkpoint",
    "divided",
    "joined",
    "json_entry",
    "read_checkpoint",
    "state_headers",
    "write_checkpoint",
]

RECORD = "record"


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds: arrays by name, and a record of JSON values."""

    arrays: dict[str, np.ndarray]
    record: dict[str, Any]


def write_checkpoint(
    path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], record: Mapping[str, Any]
) -> None:
    """Write a checkpoint to ``path``, keeping the one that was there as the previous one."""
    text = json.dumps(record, allow_nan=False)
    write_arrays(path, {**arrays, RECORD: np.array(text)}, keep=previous_of(path))


def read_checkpoint(
    path: str | os.PathLike[str],
    check_arrays: Callable[[dict[str, Header]], None] | None = None,
    check: Callable[[Checkpoint], None] | None = None,
) -> Checkpoint | None:
    """Read the checkpoint at ``path``, or the previous one where it is not usable or missing.

    Returns None where neither exists. ``check_arrays`` sees the headers of the arrays before they
    are read, ``check`` the checkpoint; each raises an InputError at what it refuses. A file that
    is not usable is reported on standard error.
    """
    damage: list[str] = []
    for candidate in (Path(path), previous_of(path)):
        if not candidate.exists():
            continue
        try:
            checkpoint = _read(candidate, check_arrays, check)
        except InputError as error:
            damage.append(str(error))
            continue
        for line in damage:
            say(f"{line}: resuming from {candidate.name}", file=sys.stderr)
        return checkpoint
    if damage:
        raise InputError(f"{'; '.join(damage)}; restart with --fresh")
    return None


def json_entry(arrays: dict[str, np.ndarray], name: str, source: str) -> dict[str, Any]:
    """Take the JSON object stored as ``name`` out of ``arrays``."""
    text = arrays.pop(name)
    if text.shape != () or text.dtype.kind != "U":
        raise InputError(f"{source}: its {name} is not a text")
    return parse_json(str(text), f"{source}: its {name}")


def _read(
    path: Path,
    check_arrays: Callable[[dict[str, Header]], None] | None,
    check: Callable[[Checkpoint], None] | None,
) -> Checkpoint:
    def headers(found: dict[str, Header]) -> None:
        if RECORD not in found:
            raise InputError(f"is not a checkpoint (it has no {RECORD!r} entry)")
        if check_arrays is not None:
            check_arrays({name: item for name, item in found.items() if name != RECORD})

    arrays = read_arrays(path, headers)
    checkpoint = Checkpoint(arrays, json_entry(arrays, RECORD, str(path)))
    try:
        if check is not None:
            check(checkpoint)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return checkpoint


def joined(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the arrays of the parts of a state by names such as ``parameter/p0.W``."""
    return {f"{part}/{name}": item for part, items in parts.items() for name, item in items.items()}


def divided(arrays: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the arrays of a state by its parts."""
    parts: dict[str, dict[str, Any]] = {"parameter": {}, "best": {}, "rule": {}}
    for name, item in arrays.items():
        part, _, rest = name.partition("/")
        if part not in parts:
            raise InputError(f"array {name} belongs to nothing that training has")
        parts[part][rest] = item
    return parts


def state_headers(parameters: Mapping[str, np.ndarray] | None) -> Callable[[Any], None]:
    """Return a check of the arrays of a state; ``parameters`` give names and shapes."""

    def check(found: dict[str, Header]) -> None:
        parts = divided(found)
        for name, header in found.items():
            if header.dtype.kind not in "fiu":
                raise InputError(f"array {name} has the type {header.dtype}, expected numbers")
        if parameters is not None:
            for part in ("parameter", "best") if parts["best"] else ("parameter",):
                check_headers(parts[part], parameters, part)

    return check

"""Checkpoints: named arrays and a JSON record in one .npz file, without pickles.

A checkpoint replaces its predecessor only when it is whole on the disk, and the predecessor
stays beside it as ``<name>.previous.npz``: whatever moment a process dies at, one whole
checkpoint can be read.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.files import written_atomically

__all__ = ["Checkpoint", "read_arrays", "write_arrays", "read_checkpoint", "write_checkpoint",
           "previous_of"]

RECORD = "record"
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, NotImplementedError)


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds: arrays by name, and a record of JSON values."""

    arrays: dict[str, np.ndarray]
    record: dict[str, Any]


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write ``arrays`` to ``path`` (.npz) atomically."""
    with written_atomically(path) as temporary:
        _write(temporary, arrays)


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read all arrays of an .npz file; a damaged file gives an InputError that names it."""
    try:
        if not os.stat(path).st_size:
            raise ValueError("it is empty")
        with np.load(path, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
    except UNREADABLE as error:
        raise InputError(f"{path}: is damaged or cut short ({error})") from None
    for name, value in arrays.items():
        if not isinstance(value, np.ndarray):
            raise InputError(f"{path}: is damaged: its entry {name!r} is not an array")
    return arrays


def write_checkpoint(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray],
                     record: Mapping[str, Any]) -> None:
    """Write a checkpoint to ``path``, keeping the one that was there as the previous one."""
    path = Path(path)
    text = json.dumps(record, allow_nan=False)
    with written_atomically(path) as temporary:
        _write(temporary, {**arrays, RECORD: np.array(text)})
        with open(temporary, "rb+") as handle:
            os.fsync(handle.fileno())
        if path.exists():
            os.replace(path, previous_of(path))


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint | None:
    """Read the checkpoint at ``path``, or the previous one where it is damaged or missing.

    Returns None where neither exists. A damaged file is reported on standard error.
    """
    path = Path(path)
    damage = []
    for candidate in (path, previous_of(path)):
        if not candidate.exists():
            continue
        try:
            checkpoint = _read(candidate)
        except InputError as error:
            damage.append(str(error))
            continue
        for line in damage:
            print(f"{line}: going on from {candidate.name}", file=sys.stderr)
        return checkpoint
    if damage:
        raise InputError(f"{'; '.join(damage)}; start anew with --fresh")
    return None


def previous_of(path: str | os.PathLike[str]) -> Path:
    """Return where the checkpoint before the one at ``path`` is kept."""
    path = Path(path)
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def _write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with open(path, "wb") as handle:
        np.savez(handle, **arrays)


def _read(path: Path) -> Checkpoint:
    arrays = read_arrays(path)
    if RECORD not in arrays:
        raise InputError(f"{path}: is not a checkpoint (it has no {RECORD!r} entry)")
    try:
        record = json.loads(str(arrays.pop(RECORD)[()]))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: its record is damaged ({error})") from None
    return Checkpoint(arrays, record)

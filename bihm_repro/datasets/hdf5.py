"""Data files in the layout that Fuel's ``H5PYDataset`` reads, with provenance.

One source, ``features`` of shape ``(examples, dim)`` with the dimension labels ``batch`` and
``feature``, holds train, valid and test one after the other. The root attribute ``split`` is
Fuel's table: a row for each split and source, with ``start``, ``stop``, a reference to
``indices``, ``available`` and ``comment``. Our own attributes stand beside it and do not disturb
Fuel.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bihm_repro.datasets.catalogue import how_to_make
from bihm_repro.errors import InputError
from bihm_repro.files import written_atomically

__all__ = ["SPLITS", "Contents", "image_shape_of", "read_fuel_file", "sweep",
           "write_fuel_file"]

SPLITS = ("train", "valid", "test")
SOURCE = "features"
_UNREADABLE = (OSError, RuntimeError, KeyError, ValueError, TypeError, IndexError, MemoryError,
               AttributeError)
"""What h5py raises on a file that is truncated, corrupt or not HDF5 at all."""


@dataclass(frozen=True)
class Contents:
    """The arrays of a data file, by split, and its root attributes."""

    splits: dict[str, np.ndarray]
    """``(examples, dim)`` by name."""
    attributes: dict[str, Any] = field(default_factory=dict)
    image_shape: tuple[int, int] | None = None
    """Height and width, where the examples are stored as images of one channel."""


def _split_table(bounds: Mapping[str, tuple[int, int]]) -> np.ndarray:
    """Return Fuel's ``split`` attribute for contiguous splits of the one source."""
    dtype = np.dtype([
        ("split", f"S{max(map(len, bounds))}"), ("source", f"S{len(SOURCE)}"),
        ("start", np.int64), ("stop", np.int64),
        ("indices", h5py.special_dtype(ref=h5py.Reference)),
        ("available", np.bool_), ("comment", "S1")])
    table = np.empty(len(bounds), dtype=dtype)
    for row, (name, (start, stop)) in zip(table, bounds.items()):
        row["split"], row["source"] = name.encode(), SOURCE.encode()
        row["start"], row["stop"] = start, stop
        row["indices"], row["available"], row["comment"] = h5py.Reference(), True, b"."
    return table


def write_fuel_file(path: str | os.PathLike[str], splits: Mapping[str, np.ndarray],
                    attributes: Mapping[str, Any]) -> None:
    """Write ``splits``, arrays ``(examples, dim)`` of one dtype, to ``path``, atomically."""
    arrays = {name: splits[name] for name in SPLITS}
    total = sum(len(rows) for rows in arrays.values())
    first = arrays["train"]
    with written_atomically(path) as temporary, h5py.File(temporary, "w") as file:
        features = file.create_dataset(SOURCE, (total, first.shape[1]), dtype=first.dtype)
        features.dims[0].label, features.dims[1].label = "batch", "feature"
        bounds, start = {}, 0
        for name, rows in arrays.items():
            bounds[name] = (start, start + len(rows))
            features[start:start + len(rows)] = rows
            start += len(rows)
        file.attrs["split"] = _split_table(bounds)
        for key, value in attributes.items():
            file.attrs[key] = value


def sweep(path: Path) -> None:
    """Remove the temporary files that a killed writer of ``path`` left behind."""
    for leftover in path.parent.glob(f".{path.stem}.*{path.suffix}"):
        process = leftover.name[len(path.stem) + 2:].partition("-")[0]
        # Untouched for a minute: a writer on another machine, whose number means nothing here,
        # would have touched it.
        if process.isdigit() and not _is_running(int(process)) \
                and time.time() - leftover.stat().st_mtime > 60:
            leftover.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def image_shape_of(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return height and width of ``(examples, height, width)`` or ``(examples, 1, ...)``."""
    if len(shape) == 4 and shape[1] == 1:
        return shape[2], shape[3]
    return (shape[1], shape[2]) if len(shape) == 3 else None


def _rows_of(file: h5py.File, row: np.void) -> np.ndarray:
    """Read the rows of one line of the ``split`` table, flattened to ``(examples, dim)``."""
    source = file[row["source"].decode()]
    start, stop, size = int(row["start"]), int(row["stop"]), len(source)
    if not 0 <= start <= stop <= size:
        raise ValueError(f"split {row['split'].decode()} spans {start} to {stop} of {size} rows")
    if row["indices"]:
        # h5py wants increasing indices: reading all and picking serves every order.
        rows = source[...][file[row["indices"]][...]]
    else:
        rows = source[start:stop]
    return rows.reshape(len(rows), -1)


def read_fuel_file(path: str | os.PathLike[str]) -> Contents:
    """Read the ``features`` of every split of ``path``; any Fuel file with that source will do.

    Images are flattened to ``(examples, dim)``. A file that is truncated, corrupt, or without
    Fuel's layout is refused with an :class:`InputError`.
    """
    path = Path(path)
    try:
        with h5py.File(path, "r") as file:
            if "split" not in file.attrs or SOURCE not in file:
                raise ValueError(f"Fuel's layout is missing: it needs a data set {SOURCE!r} and "
                                 f"the root attribute 'split'")
            table = file.attrs["split"]
            splits = {row["split"].decode(): _rows_of(file, row) for row in table
                      if row["source"].decode() == SOURCE and row["available"]}
            attributes = {key: value for key, value in file.attrs.items() if key != "split"}
            shape = image_shape_of(file[SOURCE].shape)
    except (FileNotFoundError, PermissionError):
        raise
    except _UNREADABLE as error:
        raise InputError(f"{path}: not a readable data file ({' '.join(str(error).split())}); "
                         f"make it again with {how_to_make(path.stem)}") from error
    return Contents(splits, attributes, shape)

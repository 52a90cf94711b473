"""Data files in the layout that Fuel's ``H5PYDataset`` reads, with provenance.

One source, ``features`` of shape ``(examples, dim)`` with the dimension labels ``batch`` and
``feature``, holds train, valid and test one after the other. The root attribute ``split`` is
Fuel's table: a row for each split and source, with ``start``, ``stop``, a reference to
``indices``, ``available`` and ``comment``. Fuel ignores our further attributes.

A damaged file can crash or hang the HDF5 library. So a file that we write carries the SHA-256 of
its content in its user block (the first 512 bytes, which HDF5 leaves to the application), and is
opened only if the digest is right. A file without a digest is read by a child process with limits
on time and memory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bihm_repro.datasets.checks import check_header
from bihm_repro.datasets.info import SPLITS
from bihm_repro.datasets.readers import read_with_child, refusing
from bihm_repro.errors import InputError
from bihm_repro.files import written_atomically

__all__ = ["Contents", "arrays_of", "image_shape_of", "read_fuel_file", "write_fuel_file"]

SOURCE = "features"
_BLOCK = 512
_MARK = b"bihm-repro sha256 "
_PREFIX = "split "


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
    dtype = np.dtype(
        [
            ("split", f"S{max(map(len, bounds))}"),
            ("source", f"S{len(SOURCE)}"),
            ("start", np.int64),
            ("stop", np.int64),
            ("indices", h5py.special_dtype(ref=h5py.Reference)),
            ("available", np.bool_),
            ("comment", "S1"),
        ]
    )
    rows = [
        (name.encode(), SOURCE.encode(), start, stop, h5py.Reference(), True, b".")
        for name, (start, stop) in bounds.items()
    ]
    return np.array(rows, dtype=dtype)


def write_fuel_file(
    path: str | os.PathLike[str],
    splits: Mapping[str, np.ndarray],
    attributes: Mapping[str, Any],
) -> None:
    """Write ``splits``, arrays ``(examples, dim)`` of one dtype, to ``path``, atomically."""
    arrays = {name: splits[name] for name in SPLITS}
    total, first = sum(map(len, arrays.values())), arrays["train"]
    with written_atomically(path) as temporary:
        with h5py.File(temporary, "w", userblock_size=_BLOCK) as file:
            features = file.create_dataset(SOURCE, (total, first.shape[1]), dtype=first.dtype)
            features.dims[0].label, features.dims[1].label = "batch", "feature"
            bounds, start = {}, 0
            for name, rows in arrays.items():
                bounds[name] = (start, start + len(rows))
                features[start : start + len(rows)] = rows
                start += len(rows)
            file.attrs["split"] = _split_table(bounds)
            for key, value in attributes.items():
                file.attrs[key] = value
        digest = _digest(temporary)
        with open(temporary, "rb+") as handle:
            handle.write(_MARK + digest.encode())


def _digest(path: Path) -> str:
    """Return the SHA-256 of what follows the user block."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        handle.seek(_BLOCK)
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _is_ours(path: Path) -> bool:
    """Return whether a digest is recorded in the user block; a wrong one is refused."""
    with open(path, "rb") as handle:
        block = handle.read(len(_MARK) + 64)
    if not block.startswith(_MARK):
        return False
    if _digest(path).encode() != block[len(_MARK) :]:
        raise InputError("it is damaged: its SHA-256 is not the one it was written with")
    return True


def image_shape_of(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return height and width of images of one channel, which may have an axis of its own."""
    if len(shape) == 4 and 1 in (shape[1], shape[3]):
        return (shape[2], shape[3]) if shape[1] == 1 else (shape[1], shape[2])
    return (shape[1], shape[2]) if len(shape) == 3 else None


def _checked(name: str, dataset: Any) -> h5py.Dataset:
    """Return ``dataset`` unless its values are elsewhere than in this file, or too large."""
    if not isinstance(dataset, h5py.Dataset):
        raise InputError(f"{name} is not a data set")
    if dataset.is_virtual or dataset.external:
        raise InputError(f"the values of {name} are in other files, which are not read")
    check_header(name, dataset.shape, dataset.dtype)
    return dataset


def _rows_of(file: h5py.File, source: h5py.Dataset, row: np.void) -> np.ndarray:
    """Read the rows of one line of the ``split`` table, flattened to ``(examples, dim)``."""
    start, stop, size = int(row["start"]), int(row["stop"]), len(source)
    if not 0 <= start <= stop <= size:
        raise InputError(f"split {row['split'].decode()} spans {start} to {stop} of {size} rows")
    if row["indices"]:
        # h5py needs increasing indices; reading all rows and choosing works for every order.
        rows = source[...][_checked("indices", file[row["indices"]])[...]]
    else:
        rows = source[start:stop]
    return rows.reshape(len(rows), -1)


def _read(path: Path) -> Contents:
    """Read a file in this process."""
    with h5py.File(path, "r") as file:
        link = file.get(SOURCE, getlink=True) if SOURCE in file else None
        if "split" not in file.attrs or link is None:
            raise InputError(
                f"Fuel's layout is missing: it needs a data set {SOURCE!r} and the root attribute "
                f"'split'"
            )
        if not isinstance(link, h5py.HardLink):
            raise InputError(f"{SOURCE} is a link to another place, which is not read")
        source = _checked(SOURCE, file[SOURCE])
        splits = {
            row["split"].decode(): _rows_of(file, source, row)
            for row in file.attrs["split"]
            if row["source"].decode() == SOURCE and row["available"]
        }
        attributes = {key: value for key, value in file.attrs.items() if key != "split"}
        return Contents(splits, attributes, image_shape_of(source.shape))


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """Return the content of ``path`` as arrays alone, for the child process."""
    contents = _read(path)
    plain = {
        key: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        for key, value in contents.attributes.items()
    }
    header = {"attributes": plain, "image_shape": contents.image_shape}
    packed = np.frombuffer(json.dumps(header, default=str).encode(), dtype=np.uint8)
    return {"header": packed, **{_PREFIX + key: rows for key, rows in contents.splits.items()}}


def _read_in_child(path: Path) -> Contents:
    arrays = read_with_child(f"{__name__}:arrays_of", path)
    header = json.loads(arrays.pop("header").tobytes())
    shape = header["image_shape"]
    splits = {name[len(_PREFIX) :]: rows for name, rows in arrays.items()}
    return Contents(splits, header["attributes"], tuple(shape) if shape else None)


def read_fuel_file(path: str | os.PathLike[str], advice: str = "") -> Contents:
    """Read the ``features`` of every split of ``path``; any Fuel file with that source will do.

    Images are flattened to ``(examples, dim)``. A file that is truncated, corrupt, or without
    Fuel's layout is refused with an :class:`InputError` that ends with ``advice``.
    """
    path = Path(path)
    with refusing(path, "data", advice):
        try:
            return _read(path) if _is_ours(path) else _read_in_child(path)
        except InputError as error:
            raise ValueError(str(error)) from error

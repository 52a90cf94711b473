"""Checks on the arrays of a data set: shape, size, values and content fingerprints.

A split's fingerprint is the SHA-256 of its sorted rows, so it does not depend on their order; 0/1
rows are packed to bits first (``numpy.packbits(axis=1)``), other rows are taken as the bytes they
are stored in. The fingerprint of a data set is the SHA-256 of its splits' names, shapes and
fingerprints.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bihm_repro.datasets.info import EXACT, SPLITS, SURROGATE, UNCHECKED, DatasetInfo
from bihm_repro.errors import InputError

__all__ = [
    "MAX_BYTES",
    "SHORT",
    "check_dataset",
    "check_header",
    "check_shapes",
    "check_splits",
    "check_values",
    "fingerprint_of_rows",
    "fingerprint_of_splits",
    "is_binary",
]

SHORT = 12
"""How many characters of a fingerprint are printed."""
MAX_BYTES = 2 << 30
"""Size of the largest array, and of the largest decompressed file, that is read."""
_CHUNK = 8192


def is_binary(rows: np.ndarray) -> bool:
    """Return whether every entry of ``rows`` is 0 or 1."""
    if rows.dtype == np.uint8:
        return not rows.size or int(rows.max()) <= 1
    return bool(((rows == 0) | (rows == 1)).all())


def fingerprint_of_rows(rows: np.ndarray, *, binary: bool | None = None) -> str:
    """Return the SHA-256 of the sorted ``rows``.

    Parameters
    ----------
    rows
        Array ``(examples, dim)``, 0/1 or grey levels.
    binary
        Whether to pack to bits; found from the values when left out.
    """
    if is_binary(rows) if binary is None else binary:
        rows = np.packbits(rows.astype(np.uint8, copy=False), axis=1)
    elif rows.dtype != np.uint8:
        rows = rows.astype("<f4", copy=False)
    rows = np.ascontiguousarray(rows)
    as_bytes = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    return hashlib.sha256(np.sort(as_bytes).tobytes()).hexdigest()


def fingerprint_of_splits(splits: Mapping[str, np.ndarray], *, binary: bool | None = None) -> str:
    """Return one fingerprint for all ``splits``, a mapping from name to ``(examples, dim)``."""
    digest = hashlib.sha256()
    for name in sorted(splits):
        rows = splits[name]
        line = f"{name} {rows.shape[0]} {rows.shape[1]} {fingerprint_of_rows(rows, binary=binary)}"
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def check_header(name: str, shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Check the shape and type of an array before it is allocated; return its size in bytes."""
    if dtype.kind not in "biuf" or dtype.names or dtype.subdtype:
        raise InputError(f"{name} has values of type {dtype}; they must be plain numbers")
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0:
        raise InputError(f"{name} has the shape {shape}, with a negative number")
    if size > MAX_BYTES:
        raise InputError(
            f"{name} has the shape {shape} and would take {size / 2**30:.1f} GiB; at most "
            f"{MAX_BYTES >> 30} GiB are read"
        )
    return size


def check_splits(where: str | Path, splits: Mapping[str, np.ndarray]) -> None:
    """Refuse splits that are not ``(examples, dim)`` with at least one of each, of one ``dim``."""
    for name, rows in splits.items():
        if rows.ndim != 2 or not rows.size:
            raise InputError(
                f"{where}: split {name} has shape {rows.shape}; it must be (examples, dim) with at "
                f"least one of each"
            )
    dims = {name: rows.shape[1] for name, rows in splits.items()}
    if len(set(dims.values())) > 1:
        raise InputError(f"{where}: the splits have different dimensions, {dims}")


def _first_bad(rows: np.ndarray, levels: int) -> tuple[int, int] | None:
    """Return row and column of the first value outside ``[0, levels]`` (NaN too), or None."""
    if rows.dtype == np.uint8 and rows.max() <= levels:
        return None
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK]
        bad = ~((part >= 0) & (part <= levels))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            return start + int(row), int(column)
    return None


def check_values(where: str | Path, splits: Mapping[str, np.ndarray], levels: int = 1) -> bool:
    """Refuse values outside ``[0, levels]``; return whether any is neither 0 nor 1."""
    check_splits(where, splits)
    for name, rows in splits.items():
        check_header(f"{where}: split {name}", rows.shape, rows.dtype)
        bad = _first_bad(rows, levels)
        if bad is not None:
            raise InputError(
                f"{where}: split {name}, row {bad[0]}, column {bad[1]} is {rows[bad]}; allowed are "
                f"0 and 1, or grey levels from 0 to {levels}"
            )
    return levels != 1 or not all(map(is_binary, splits.values()))


def check_shapes(info: DatasetInfo, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse ``shapes`` of splits that are not those registered."""
    for name in SPLITS:
        if name not in shapes:
            raise InputError(f"{info.name}: split {name} is missing")
        shape, size = shapes[name], info.sizes[name]
        if len(shape) != 2 or shape[1] != info.dim:
            raise InputError(
                f"{info.name}: split {name} has shape {shape}; {info.dim} columns are expected: it "
                f"may be the file of another data set"
            )
        if shape[0] != size and info.exactness != UNCHECKED:
            raise InputError(
                f"{info.name}: split {name} has {shape[0]} rows where {size} are expected: the "
                f"file is truncated or split in another way"
            )


def _fingerprints(
    splits: Mapping[str, np.ndarray], names: Mapping[str, str], binary: bool
) -> dict[str, str]:
    return {
        name: fingerprint_of_rows(
            np.concatenate([splits[part] for part in name.split("+")]), binary=binary
        )
        for name in names
    }


def check_dataset(info: DatasetInfo, splits: Mapping[str, np.ndarray]) -> str:
    """Check ``splits`` against what is registered; return how exact they are.

    Raises :class:`InputError` on wrong shapes, sizes, values or content.
    """
    check_shapes(info, {name: rows.shape for name, rows in splits.items()})
    if check_values(info.name, splits, 255 if info.grey else 1) and not info.grey:
        raise InputError(f"{info.name}: it has values between 0 and 1, but this set is binary")
    found = _fingerprints(splits, info.fingerprints, not info.grey)
    for name, expected in info.fingerprints.items():
        if found[name] != expected:
            raise InputError(
                f"{info.name}: the content of {name} has the fingerprint {found[name][:SHORT]} "
                f"where {expected[:SHORT]} is expected: the rows are not the published ones"
            )
    if info.surrogate_fingerprints:
        surrogate = _fingerprints(splits, info.surrogate_fingerprints, not info.grey)
        return SURROGATE if surrogate == dict(info.surrogate_fingerprints) else EXACT
    return info.exactness

"""Checks on arrays that claim to be a data set: shape, values, sizes, fingerprints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bihm_repro.datasets.catalogue import EXACT, SURROGATE, Entry
from bihm_repro.datasets.fingerprints import SHORT, fingerprint_of_rows, is_binary
from bihm_repro.errors import InputError

__all__ = ["check_entry", "check_values"]

_CHUNK = 8192


def _first_bad(rows: np.ndarray, levels: int) -> tuple[int, int] | None:
    """Return row and column of the first value outside ``[0, levels]`` (NaN too), or None."""
    if rows.dtype == np.uint8 and rows.max() <= levels:
        return None
    for start in range(0, len(rows), _CHUNK):
        part = rows[start:start + _CHUNK]
        bad = ~((part >= 0) & (part <= levels))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            return start + int(row), int(column)
    return None


def check_values(where: str | Path, splits: Mapping[str, np.ndarray], levels: int = 1) -> bool:
    """Refuse values outside ``[0, levels]``; return whether there are any besides 0 and 1."""
    grey = False
    for name, rows in splits.items():
        if rows.ndim != 2 or not rows.size:
            raise InputError(f"{where}: split {name} has shape {rows.shape}; it must be (examples, "
                             f"dim) with at least one of each")
        if rows.dtype.kind not in "biuf":
            raise InputError(f"{where}: split {name} has values of type {rows.dtype}; they must be "
                             f"numbers, 0/1 or grey levels in [0, 1]")
        bad = _first_bad(rows, levels)
        if bad is not None:
            raise InputError(f"{where}: split {name}, row {bad[0]}, column {bad[1]} is "
                             f"{rows[bad]}; allowed are 0 and 1, or grey levels from 0 to {levels} "
                             f"{'(divide levels 0 to 255 by 255 first)' if levels == 1 else ''}")
        grey = grey or levels != 1 or not is_binary(rows)
    return grey


def _check_shapes(entry: Entry, splits: Mapping[str, np.ndarray]) -> None:
    for name, size in entry.sizes.items():
        if name not in splits:
            raise InputError(f"{entry.name}: split {name} is missing")
        rows = splits[name]
        if rows.ndim != 2 or rows.shape[1] != entry.dim:
            raise InputError(f"{entry.name}: split {name} has shape {rows.shape}; {entry.dim} "
                             f"columns are expected: is it another data set's file?")
        if len(rows) != size and entry.exactness != "unchecked":
            raise InputError(f"{entry.name}: split {name} has {len(rows)} rows where {size} are "
                             f"expected: the file is cut short or split in another way")


def _fingerprints(splits: Mapping[str, np.ndarray], names: Mapping[str, str],
                  binary: bool) -> dict[str, str]:
    parts = {name: [splits[part] for part in name.split("+")] for name in names}
    return {name: fingerprint_of_rows(rows[0] if len(rows) == 1 else np.concatenate(rows),
                                      binary=binary) for name, rows in parts.items()}


def check_entry(entry: Entry, splits: Mapping[str, np.ndarray]) -> str:
    """Check ``splits`` against what the catalogue knows; return how exact they are.

    Raises :class:`InputError` on wrong shapes, sizes, values or content.
    """
    _check_shapes(entry, splits)
    if check_values(entry.name, splits, 255 if entry.grey else 1) and not entry.grey:
        raise InputError(f"{entry.name}: values between 0 and 1 found; this set is binary")
    found = _fingerprints(splits, entry.fingerprints, not entry.grey)
    for name, expected in entry.fingerprints.items():
        if found[name] != expected:
            raise InputError(f"{entry.name}: the content of {name} has the fingerprint "
                             f"{found[name][:SHORT]} where {expected[:SHORT]} is expected: the "
                             f"rows are not the published ones")
    if entry.surrogate_fingerprints:
        surrogate = _fingerprints(splits, entry.surrogate_fingerprints, not entry.grey)
        return SURROGATE if surrogate == dict(entry.surrogate_fingerprints) else EXACT
    return entry.exactness

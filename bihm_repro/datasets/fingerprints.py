"""Content fingerprints: the same rows give the same string, whatever file or order they came in.

A split's fingerprint is the SHA-256 of its rows after sorting them; 0/1 rows are packed to bits
first (``numpy.packbits(axis=1)``), other rows are taken as the bytes they are stored in. The
fingerprint of a whole data set is the SHA-256 of its splits' names, shapes and fingerprints.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

__all__ = ["SHORT", "fingerprint_of_rows", "fingerprint_of_splits", "is_binary"]

SHORT = 12
"""How many characters of a fingerprint are shown to a human."""


def is_binary(rows: np.ndarray) -> bool:
    """Whether every entry of ``rows`` is 0 or 1."""
    if rows.dtype == np.uint8:
        return not rows.size or int(rows.max()) <= 1
    return bool(((rows == 0) | (rows == 1)).all())


def fingerprint_of_rows(rows: np.ndarray, *, binary: bool | None = None) -> str:
    """Return the order-free SHA-256 of ``rows``.

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

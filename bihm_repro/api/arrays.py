"""Arguments of the Python classes: rows of data, counts and seeds, each checked."""

from __future__ import annotations

import secrets
import warnings
from typing import Any

import numpy as np

from bihm_repro.datasets.checks import is_binary
from bihm_repro.datasets.streams import fixed_sample
from bihm_repro.errors import InputError, check_count

__all__ = ["GreyLevelsWarning", "as_binary", "as_rows", "column_names", "new_seed"]


class GreyLevelsWarning(UserWarning):
    """Rows with values between 0 and 1 were replaced by one binary sample of them."""


def as_rows(x: Any, what: str = "X", threshold: float | None = None) -> np.ndarray:
    """Return ``x`` as (examples, dim): uint8 where all values are 0 or 1, else float32 in [0, 1].

    ``x`` is an array, a pandas DataFrame, a scipy sparse matrix or nested lists. With
    ``threshold``, values above it become 1 and the others 0.
    """
    rows = _numbers(x.toarray() if hasattr(x, "toarray") else x, what)
    if rows.ndim != 2:
        raise InputError(
            f"{what} has shape {rows.shape}: expected (examples, dim). Reshape your data: "
            "x.reshape(1, -1) makes one example of a vector"
        )
    for size, name in zip(rows.shape, ("sample", "feature")):
        if not size:
            raise InputError(
                f"{what} holds 0 {name}(s) (shape={rows.shape}) while a minimum of 1 is required."
            )
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        row = int((~np.isfinite(rows)).any(axis=1).argmax())
        value = "NaN" if np.isnan(rows[row]).any() else "inf"
        raise InputError(f"{what} holds {value} in row {row}: expected finite values")
    if threshold is not None:
        return (rows > threshold).astype(np.uint8)
    outside = (rows < 0) | (rows > 1)
    if outside.any():
        raise InputError(
            f"{what} holds {rows[outside][0]:g} in row {int(outside.any(axis=1).argmax())}: "
            "expected values in [0, 1]; scale them, or set threshold to count larger ones as 1"
        )
    return rows.astype(np.uint8 if is_binary(rows) else np.float32)


def _numbers(x: Any, what: str) -> np.ndarray:
    rows = np.asarray(x)
    if rows.dtype.kind == "c":
        raise InputError(f"{what}: Complex data not supported")
    if rows.dtype.kind in "biuf":
        return rows
    try:
        return rows.astype(np.float64)
    except ValueError as error:
        raise InputError(f"{what} holds values that are not numbers: {error}") from None


def as_binary(rows: np.ndarray, split: str, what: str = "X") -> np.ndarray:
    """Return ``rows`` where they are binary, else the binary sample that ``split`` has.

    It is the sample that the command line measures on: a function of the split's name and of the
    position of a row.
    """
    if rows.dtype == np.uint8:
        return rows
    warnings.warn(
        f"{what} has values between 0 and 1, which are taken as probabilities: the result is for "
        "one binary sample of them (the same in every call), as in bihm evaluate",
        GreyLevelsWarning,
        stacklevel=4,
    )
    return fixed_sample(rows, 1, split)


def column_names(x: Any) -> np.ndarray | None:
    """Return the names of the columns of a DataFrame where all are strings, else None."""
    names = list(getattr(x, "columns", []))
    if not names or not all(isinstance(name, str) for name in names):
        return None
    return np.array(names, dtype=object)


def new_seed(given: Any, what: str = "seed") -> int:
    """Return the seed that ``given`` means.

    An integer is the seed itself, None a new one each time, and a numpy generator draws one.
    """
    if given is None:
        return secrets.randbelow(2**31)
    if isinstance(given, np.random.Generator):
        return int(given.integers(2**31))
    if hasattr(given, "randint"):
        return int(given.randint(2**31 - 1))
    return check_count(given, what, 0)

"""Importing a user's own data: read, choose the features, bring the values to [0, 1], split.

========================  ======================================================================
``.csv .tsv .txt .data``  text tables with any separator, with or without column names
``.parquet``              tables (needs pyarrow)
``.npz``                  ``train``/``valid``/``test``, ``x_train``/``x_test``, ``X``/``y``, a
                          single array, or a sparse matrix of scipy
``.npy .mat``             one array; the variables of ``.mat`` are chosen as those of ``.npz``
``.libsvm .svm``          a label, then ``feature:value`` pairs
``.hdf5 .h5``             Fuel's layout
========================  ======================================================================

Text files may be compressed with gzip or xz. Values are 0/1, -1/1, or grey levels in [0, 1] that
are taken as the probabilities of binary variables. Splits that are missing are cut from ``train``
at random. Whatever is guessed is passed to ``say``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from bihm_repro.datasets import readers
from bihm_repro.datasets.checks import (
    MAX_BYTES,
    check_header,
    check_splits,
    check_values,
    fingerprint_of_splits,
)
from bihm_repro.datasets.convert import CONVERTER_VERSION
from bihm_repro.datasets.dataset import Dataset, load_dataset
from bihm_repro.datasets.hdf5 import image_shape_of, read_fuel_file, write_fuel_file
from bihm_repro.datasets.info import OWN, SPLITS
from bihm_repro.datasets.registry import DATASETS, NAME
from bihm_repro.datasets.streams import shuffled_order
from bihm_repro.datasets.tables import TABLES, ImportOptions, Say, read_table
from bihm_repro.errors import InputError
from bihm_repro.files import sweep_temporaries

__all__ = ["ImportOptions", "import_file", "read_user_file", "with_all_splits"]

_SPLIT_NAMES = {
    "train": ("train", "train_data", "x_train", "train_x", "train_images"),
    "valid": ("valid", "valid_data", "x_valid", "valid_x", "val", "validation", "x_val", "val_x"),
    "test": ("test", "test_data", "x_test", "test_x", "test_images"),
}
_SINGLE_NAMES = ("x", "data", "features", "images")
_GUESS = ImportOptions()


# -- Archives of arrays


def _choose(headers: Mapping[str, readers.Header], say: Say) -> dict[str, str]:
    """Return which array is which split, by the names and shapes of the arrays."""
    lower = {name.lower(): name for name in headers}
    chosen = {
        split: lower[name]
        for split, names in _SPLIT_NAMES.items()
        for name in names
        if name in lower
    }
    tables = [name for name, (shape, _) in headers.items() if len(shape) > 1]
    if not chosen:
        single = [lower[name] for name in _SINGLE_NAMES if name in lower] or tables
        if len(headers) == 1:
            single = list(headers)
        if len(single) == 1:
            chosen = {"train": single[0]}
    if "train" not in chosen:
        raise InputError(
            f"it holds the arrays {', '.join(headers) or 'none'}; name them train, valid and test, "
            f"or X, or store a single array"
        )
    others = [name for name in headers if name not in chosen.values()]
    unknown = [name for name in others if name in tables and not re.match("(?i)y|.*label", name)]
    if unknown:
        raise InputError(
            f"the array {unknown[0]} is none of train, valid and test; name it so, or take it out "
            f"of the file"
        )
    for split, name in chosen.items():
        if name != split:
            say(f"the array {name} is {split}")
    if others:
        say(f"not features, left out: {', '.join(others)}")
    return chosen


def _read_archive(path: Path, read: Callable, say: Say) -> dict[str, np.ndarray]:
    chosen: dict[str, str] = {}

    def choose(headers: Mapping[str, readers.Header]) -> list[str]:
        if {"format", "shape", "data"} <= set(headers):
            for name in set(headers) - {"format"}:
                check_header(f"the array {name}", *headers[name])
            return []
        chosen.update(_choose(headers, say))
        return list(chosen.values())

    arrays = read(path, choose)
    return {split: arrays[name] for split, name in chosen.items()} or _read_sparse(path)


def _read_sparse(path: Path) -> dict[str, np.ndarray]:
    from scipy.sparse import load_npz

    matrix = load_npz(path)
    if matrix.format not in ("csr", "csc", "coo"):
        raise InputError(f"the sparse format {matrix.format} is not read; save matrix.tocsr()")
    if matrix.format != "coo":
        matrix.check_format(full_check=True)
    check_header("the matrix", matrix.shape, matrix.dtype)
    return {"train": matrix.toarray()}


# -- Any file


def _suffix(path: Path) -> str:
    name = path.name[: -len(path.suffix)] if path.suffix in (".gz", ".xz") else path.name
    return Path(name).suffix.lower()


def _read_arrays(path: Path, options: ImportOptions, say: Say) -> dict[str, np.ndarray]:
    suffix = _suffix(path)
    if suffix in TABLES:
        return {"train": read_table(path, suffix, options, say)}
    if options.drop or options.label is not None:
        raise InputError("--drop and --label are for tables with columns, not for this file")
    if suffix == ".npy":
        return {"train": readers.read_npy(path)}
    if suffix == ".npz":
        return _read_archive(path, readers.read_npz, say)
    if suffix == ".mat":
        return _read_archive(path, readers.read_mat, say)
    if suffix in (".libsvm", ".svm", ".svmlight"):
        return {"train": readers.read_libsvm(path, say=say)}
    raise InputError(
        f"files ending in {path.suffix or 'nothing'} are not known; allowed are "
        f"{', '.join(TABLES)}, .npz, .npy, .mat, .libsvm, .hdf5 and .h5"
    )


def read_user_file(
    path: Path, options: ImportOptions = _GUESS, say: Say = lambda line: None
) -> tuple[dict[str, np.ndarray], tuple[int, int] | None]:
    """Read a user's file; return its splits, each ``(examples, dim)``, and the image shape."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if not path.stat().st_size:
        raise InputError(f"{path}: is empty")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"{path}: is larger than {MAX_BYTES >> 30} GiB, the most that is read")
    if path.suffix in (".hdf5", ".h5"):
        contents = read_fuel_file(path)
        return contents.splits, contents.image_shape
    with readers.refusing(path, path.suffix.lstrip(".")):
        splits = _read_arrays(path, options, say)
        shape = image_shape_of(splits["train"].shape)
        flat = {
            name: rows.reshape(len(rows), -1) if rows.ndim > 2 and rows.size else rows
            for name, rows in splits.items()
        }
        return flat, shape


# -- Values


def _to_probabilities(
    splits: dict[str, np.ndarray], options: ImportOptions, say: Say
) -> tuple[dict[str, np.ndarray], int]:
    """Return the splits with values in ``[0, levels]``, and ``levels``."""
    for name, rows in splits.items():
        check_header(f"split {name}", rows.shape, rows.dtype)
        if not np.isfinite(rows).all():
            row, column = np.argwhere(~np.isfinite(rows))[0]
            raise InputError(
                f"split {name}, row {row}, column {column} is {rows[row, column]}; fill in a value "
                f"or leave the row out"
            )
    low, high = min(map(np.min, splits.values())), max(map(np.max, splits.values()))
    if options.threshold is not None:
        return {name: rows > options.threshold for name, rows in splits.items()}, 1
    if options.scale is not None:
        return _scaled(splits, options.scale, low, high)
    if low == -1 and all(((rows == -1) | (rows == 1)).all() for rows in splits.values()):
        say("the values are -1 and 1: -1 is taken for 0")
        return {name: rows > 0 for name, rows in splits.items()}, 1
    if low < 0:
        raise InputError(f"the smallest value is {low}; binarize with --threshold 0, for example")
    if high > 1:
        top = 255 if 127 < high <= 255 else high
        raise InputError(
            f"the largest value is {high}, where 0 to 1 are allowed; give --scale {top:g} to take "
            f"the values for grey levels from 0 to {top:g}, or binarize with --threshold "
            f"{127 if top == 255 else 0}"
        )
    return splits, 1


def _scaled(
    splits: dict[str, np.ndarray], scale: float, low: float, high: float
) -> tuple[dict[str, np.ndarray], int]:
    if low < 0 or high > scale:
        raise InputError(
            f"--scale {scale:g}: the values are from {low} to {high}, not 0 to {scale:g}"
        )
    if scale == 255 and all((rows == np.rint(rows)).all() for rows in splits.values()):
        if not all(((rows == 0) | (rows == 255)).all() for rows in splits.values()):
            return {name: rows.astype(np.uint8) for name, rows in splits.items()}, 255
    return {name: rows / np.float32(scale) for name, rows in splits.items()}, 1


# -- Splits


def with_all_splits(
    splits: dict[str, np.ndarray], valid_fraction: float, test_fraction: float, seed: int
) -> dict[str, np.ndarray]:
    """Return train, valid and test; the missing ones are cut from train at random.

    A fraction is that of the rows of train as given.
    """
    fractions = {"valid": valid_fraction, "test": test_fraction}
    missing = [name for name in fractions if name not in splits]
    for name in missing:
        if not 0 < fractions[name] < 1:
            raise InputError(
                f"--{name}-fraction {fractions[name]} is not allowed; give a number between 0 and 1"
            )
    train = splits["train"]
    counts = {name: max(1, round(fractions[name] * len(train))) for name in missing}
    if sum(counts.values()) >= len(train):
        wanted = " and ".join(f"{count} for {name}" for name, count in counts.items())
        raise InputError(
            f"{len(train)} rows leave none for training after {wanted}; give smaller "
            f"--valid-fraction and --test-fraction, or more rows"
        )
    result, order, start = dict(splits), shuffled_order(len(train), seed, 0), 0
    for name, count in counts.items():
        result[name] = train[np.sort(order[start : start + count])]
        start += count
    if missing:
        result["train"] = train[np.sort(order[start:])]
    return {name: result[name] for name in SPLITS}


def _check_name(name: str, path: Path, fresh: bool) -> None:
    if not re.fullmatch(NAME, name):
        raise InputError(f"--name {name!r} is not allowed; use letters, digits, _ and -")
    if name in DATASETS or name in ("all", "list", "import"):
        raise InputError(f"--name {name} is the name of a registered data set; choose another")
    if path.exists() and not fresh:
        raise InputError(
            f"{path} exists already; choose another --name, or give --fresh to replace it"
        )


def import_file(
    file: str | os.PathLike[str],
    name: str,
    folder: str | os.PathLike[str] = "data",
    options: ImportOptions = _GUESS,
    *,
    valid_fraction: float = 0.1,
    test_fraction: float = 0.1,
    seed: int = 0,
    fresh: bool = False,
    say: Say = lambda line: None,
) -> tuple[Path, Dataset]:
    """Convert a user's ``file`` to ``folder/NAME.hdf5``; return the path and the data set."""
    file, path = Path(file), Path(folder) / f"{name}.hdf5"
    _check_name(name, path, fresh)
    found, image_shape = read_user_file(file, options, say)
    with readers.refusing(file, "data"):
        if "train" not in found:
            raise InputError(f"no split train, only {', '.join(found) or 'none'}")
        found = {key: found[key] for key in SPLITS if key in found}
        check_splits(file, found)
        found, levels = _to_probabilities(found, options, say)
        grey = check_values(file, found, levels)
        if grey:
            say("values between 0 and 1 are taken for the probabilities of binary variables")
        cut = [key for key in ("valid", "test") if key not in found]
        if cut:
            say(f"{' and '.join(cut)} are rows of train, chosen at random")
        splits = with_all_splits(found, valid_fraction, test_fraction, seed)
    dtype = np.uint8 if levels == 255 or not grey else np.float32
    splits = {key: np.ascontiguousarray(rows, dtype=dtype) for key, rows in splits.items()}
    attributes = {
        "name": name,
        "source": str(file),
        "exactness": OWN,
        "note": "",
        "grey": grey,
        "levels": levels,
        "citation": "",
        "converter_version": CONVERTER_VERSION,
        "fingerprint": fingerprint_of_splits(splits, binary=not grey),
    }
    if image_shape:
        attributes["image_shape"] = list(image_shape)
    sweep_temporaries(path.parent)
    write_fuel_file(path, splits, attributes)
    return path, load_dataset(name, folder)

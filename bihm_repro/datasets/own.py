"""A user's own data: ``.npz``, ``.npy``, ``.csv`` or a Fuel HDF5 file, checked and converted.

The file may hold the splits ``train``, ``valid`` and ``test`` or one array; splits that are
missing are cut from ``train`` at random. Values are 0/1, or grey levels in [0, 1] that are taken
as the probabilities of binary variables.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np

from bihm_repro.datasets.catalogue import CATALOGUE
from bihm_repro.datasets.checks import check_values
from bihm_repro.datasets.convert import CONVERTER_VERSION
from bihm_repro.datasets.fingerprints import fingerprint_of_splits
from bihm_repro.datasets.hdf5 import SPLITS, image_shape_of, read_fuel_file, sweep, write_fuel_file
from bihm_repro.datasets.load import OWN, Dataset, load_dataset
from bihm_repro.datasets.schemes import shuffled_order
from bihm_repro.errors import InputError

__all__ = ["import_file", "read_own", "with_all_splits"]

_SUFFIXES = (".npz", ".npy", ".csv", ".hdf5", ".h5")
_BROKEN = (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile, zlib.error)


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    splits = {split: arrays[key] for split in SPLITS
              for key in (split, f"{split}_data") if key in arrays}
    if not splits and len(arrays) == 1:
        splits = {"train": next(iter(arrays.values()))}
    if "train" not in splits:
        raise InputError(f"{path}: it holds the arrays {', '.join(arrays) or 'none'}; name them "
                         f"train, valid and test, or store a single array")
    used = {id(rows) for rows in splits.values()}
    others = [name for name, rows in arrays.items() if rows.ndim > 1 and id(rows) not in used]
    if others:
        raise InputError(f"{path}: the array {others[0]} is none of train, valid and test; name it "
                         f"so, or take it out of the file")
    return splits


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_csv(path: Path) -> dict[str, np.ndarray]:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    if lines and not any(_is_number(value) for value in lines[0].split(",")):
        lines = lines[1:]  # The first line names the columns.
    if not lines:
        raise ValueError("it has no rows")
    return {"train": np.loadtxt(lines, delimiter=",", dtype=np.float32, ndmin=2)}


def read_own(path: Path) -> tuple[dict[str, np.ndarray], tuple[int, int] | None]:
    """Read a user's file; return its splits, each ``(examples, dim)``, and the image shape."""
    if path.suffix not in _SUFFIXES:
        raise InputError(f"{path}: files ending in {path.suffix or 'nothing'} are not known; "
                         f"allowed are {', '.join(_SUFFIXES)}")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if not path.stat().st_size:
        raise InputError(f"{path}: is empty")
    if path.suffix in (".hdf5", ".h5"):
        contents = read_fuel_file(path)
        return contents.splits, contents.image_shape
    readers = {".npz": _read_npz, ".csv": _read_csv,
               ".npy": lambda file: {"train": np.load(file, allow_pickle=False)}}
    try:
        splits = readers[path.suffix](path)
    except (InputError, PermissionError):
        raise
    except _BROKEN as error:
        raise InputError(f"{path}: not a readable {path.suffix} file "
                         f"({' '.join(str(error).split())[:200]})") from error
    shape = image_shape_of(splits["train"].shape)
    return {name: rows.reshape(len(rows), -1) if rows.ndim > 2 and rows.size else rows
            for name, rows in splits.items()}, shape


def with_all_splits(splits: dict[str, np.ndarray], valid_fraction: float, test_fraction: float,
                    seed: int) -> dict[str, np.ndarray]:
    """Return train, valid and test; the missing ones are cut from train at random.

    A fraction is that of train's rows as they come in.
    """
    fractions = {"valid": valid_fraction, "test": test_fraction}
    missing = [name for name in fractions if name not in splits]
    for name in missing:
        if not 0 < fractions[name] < 1:
            raise InputError(f"--{name}-fraction {fractions[name]} is not allowed; give a number "
                             f"between 0 and 1")
    train = splits["train"]
    counts = {name: max(1, round(fractions[name] * len(train))) for name in missing}
    if sum(counts.values()) >= len(train):
        wanted = " and ".join(f"{count} for {name}" for name, count in counts.items())
        raise InputError(f"{len(train)} rows leave none for training after {wanted}; give smaller "
                         f"--valid-fraction and --test-fraction, or more rows")
    result, order, start = dict(splits), shuffled_order(len(train), seed, 0), 0
    for name, count in counts.items():
        result[name] = train[np.sort(order[start:start + count])]
        start += count
    if missing:
        result["train"] = train[np.sort(order[start:])]
    return {name: result[name] for name in SPLITS}


def _check_name(name: str, path: Path, fresh: bool) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise InputError(f"--name {name!r} is not allowed; use letters, digits, _ and -")
    if name in CATALOGUE or name in ("all", "list", "import"):
        raise InputError(f"--name {name} is taken by the catalogue; choose another")
    if path.exists() and not fresh:
        raise InputError(f"{path} is there already; choose another --name, or give --fresh to "
                         f"replace it")


def import_file(file: str | os.PathLike[str], name: str, folder: str | os.PathLike[str] = "data",
                *, valid_fraction: float = 0.1, test_fraction: float = 0.1, seed: int = 0,
                fresh: bool = False) -> tuple[Path, Dataset]:
    """Convert a user's ``file`` to ``folder/NAME.hdf5``; return the path and the data set."""
    file, path = Path(file), Path(folder) / f"{name}.hdf5"
    _check_name(name, path, fresh)
    found, image_shape = read_own(file)
    if "train" not in found:
        raise InputError(f"{file}: no split train, only {', '.join(found) or 'none'}")
    grey = check_values(file, {key: found[key] for key in SPLITS if key in found})
    dims = {key: rows.shape[1] for key, rows in found.items()}
    if len(set(dims.values())) > 1:
        raise InputError(f"{file}: the splits have different dimensions, {dims}")
    try:
        splits = with_all_splits(found, valid_fraction, test_fraction, seed)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    splits = {key: np.ascontiguousarray(rows, dtype=np.float32 if grey else np.uint8)
              for key, rows in splits.items()}
    attributes = {"name": name, "source": str(file), "exactness": OWN, "note": "", "grey": grey,
                  "levels": 1, "citation": "", "converter_version": CONVERTER_VERSION,
                  "fingerprint": fingerprint_of_splits(splits, binary=not grey)}
    if image_shape:
        attributes["image_shape"] = list(image_shape)
    sweep(path)
    write_fuel_file(path, splits, attributes)
    return path, load_dataset(name, folder)

"""Damaged and forged HDF5 data files, ours (with a digest) and others'."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from bihm_repro.datasets.checks import fingerprint_of_splits
from bihm_repro.datasets.dataset import load_dataset
from bihm_repro.datasets.hdf5 import write_fuel_file
from tests.torture.foreign import use_tiny_limits
from tests.torture.harness import Case, Failure, Group
from tests.torture.mutations import mutated_bytes, nasty_value

SPLITS = {
    name: (np.arange(9 * count).reshape(count, 9) * 7 % 5 > 2).astype(np.uint8)
    for name, count in (("train", 30), ("valid", 10), ("test", 20))
}
FINGERPRINT = fingerprint_of_splits(SPLITS, binary=True)
ATTRIBUTES = {
    "name": "own", "source": "own.csv", "exactness": "own", "note": "", "grey": False,
    "levels": 1, "citation": "", "converter_version": 2, "fingerprint": FINGERPRINT,
    "image_shape": [3, 3],
}  # fmt: skip


class Seeds(NamedTuple):
    """Data files as bytes."""

    ours: bytes
    foreign: list[bytes]


def _foreign(path: Path, images: bool, **options: Any) -> bytes:
    write_fuel_file(path, SPLITS, {})
    with h5py.File(path, "r") as file:
        table = file.attrs["split"]
    rows = np.concatenate(list(SPLITS.values()))
    with h5py.File(path, "w") as file:
        rows = rows.reshape(-1, 1, 3, 3) if images else rows
        file.create_dataset("features", data=rows, **options)
        if images:
            file.create_dataset("order", data=np.arange(30)[::-1])
            table["indices"][0] = file["order"].ref
        file.attrs["split"] = table
    return path.read_bytes()


def _prepare(folder: Path) -> Seeds:
    use_tiny_limits()
    path = folder / "own.hdf5"
    write_fuel_file(path, SPLITS, ATTRIBUTES)
    ours = path.read_bytes()
    foreign = [
        _foreign(path, False),
        _foreign(path, True),
        _foreign(path, False, compression="gzip", chunks=(10, 9), fletcher32=True),
        ours[512:],
    ]
    return Seeds(ours, foreign)


def _attack(seeds: Seeds, case: Case) -> str:
    chance, path = case.random, case.folder / "own.hdf5"
    kind = case.number % 4
    if kind == 0:
        path.write_bytes(mutated_bytes(seeds.ours, chance))
        if load_dataset(path).fingerprint != FINGERPRINT:
            raise Failure("changed bytes were accepted as other data")
    elif kind == 1:
        _write_forged(path, case)
        load_dataset(path)
    else:
        path.write_bytes(mutated_bytes(chance.choice(seeds.foreign), chance))
        load_dataset(path)
    return "accepted"


def _write_forged(path: Path, case: Case) -> None:
    """Write a file with a right digest and wrong attributes or values."""
    chance, attributes, splits = case.random, dict(ATTRIBUTES), dict(SPLITS)
    for _ in range(chance.choice((1, 2))):
        key = chance.choice(list(attributes))
        value = nasty_value(chance)
        attributes[key] = np.zeros(0) if isinstance(value, (dict, list)) else value
        if value is None:
            del attributes[key]
    if chance.random() < 0.3:
        shape = chance.choice(((0, 9), (5, 0), (5, 9), (5, 8)))
        dtype = chance.choice(("f4", "i8", "f8", "u1", "S3", "c8"))
        splits = {name: np.ones(shape, dtype) for name in SPLITS}
    try:
        write_fuel_file(path, splits, attributes)
    except (ValueError, TypeError, OverflowError, OSError, KeyError, AttributeError):
        write_fuel_file(path, splits, {"name": "own", "converter_version": 2})


GROUP = Group("hdf5", 1.0, _prepare, _attack)

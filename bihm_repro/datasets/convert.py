"""From raw files to ``data/NAME.hdf5``: obtain, check, write with provenance."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bihm_repro.datasets import bars
from bihm_repro.datasets.catalogue import EXACT, Entry, find_entry
from bihm_repro.datasets.fingerprints import fingerprint_of_rows, fingerprint_of_splits
from bihm_repro.datasets.hdf5 import sweep, write_fuel_file
from bihm_repro.datasets.load import Dataset, load_dataset
from bihm_repro.datasets.obtain import NOT_PUBLISHED_DRAW, Obtained, obtain, read_checked
from bihm_repro.datasets.sources import Source
from bihm_repro.errors import InputError

__all__ = ["CONVERTER_VERSION", "Conversion", "convert"]

CONVERTER_VERSION = 1
"""Raised when the same raw files would give another data file."""


@dataclass(frozen=True)
class Conversion:
    """The outcome of ``convert``."""

    path: Path
    dataset: Dataset
    reused: bool
    """Whether the file was there already, and sound."""


def _note(entry: Entry, exactness: str) -> str:
    """Return what to say of the set; a note on a stand-in is dropped for the real thing."""
    if exactness == NOT_PUBLISHED_DRAW:
        return "binarized here from a fixed seed: not the published draw"
    return "" if exactness == EXACT and entry.surrogate_fingerprints else entry.note


def _attributes(entry: Entry, obtained: Obtained) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "name": entry.name, "title": entry.title, "citation": entry.citation,
        "source": obtained.source, "exactness": obtained.exactness,
        "note": _note(entry, obtained.exactness),
        "grey": entry.grey, "levels": 255 if entry.grey else 1,
        "fingerprint": fingerprint_of_splits(obtained.splits, binary=not entry.grey),
        "converter_version": CONVERTER_VERSION,
    }
    for name, rows in obtained.splits.items():
        attributes[f"fingerprint_{name}"] = fingerprint_of_rows(rows, binary=not entry.grey)
    if entry.image_shape:
        attributes["image_shape"] = list(entry.image_shape)
    return attributes


def _standing(name: str, folder: Path, mirror: str | None) -> Dataset | None:
    """Return the data set as it is on disk, or None where it must be made (again)."""
    if not (folder / f"{name}.hdf5").is_file():
        return None
    try:
        dataset = load_dataset(name, folder)
    except InputError:
        return None
    return None if mirror and dataset.exactness == NOT_PUBLISHED_DRAW else dataset


def _read_file(entry: Entry, file: Path) -> Obtained:
    """Read and check the user's own copy of a raw file."""
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    return read_checked(entry, _source_of_file(entry, file), {"all": file})


def _source_of_file(entry: Entry, file: Path) -> Source:
    """Return which of the one-file sources of ``entry`` the user's ``file`` is."""
    kinds = {".npz": "npz", ".mat": "mat", ".gz": "pickle", ".pkl": "pickle"}
    for source in entry.sources:
        if set(source.files) == {"all"} and source.kind == kinds.get(file.suffix):
            return source
    known = [source.file_name("all") for source in entry.sources
             if set(source.files) == {"all"} and source.kind != "wheel"]
    raise InputError(f"{file}: {entry.name} is made from {' or '.join(known)}; for data of your "
                     f"own run `bihm data import {file} --name NAME`")


def convert(name: str, folder: str | os.PathLike[str] = "data", *, mirror: str | None = None,
            file: str | os.PathLike[str] | None = None, fresh: bool = False,
            report: Callable[[str], None] = lambda line: None,
            unreachable: set[str] | None = None) -> Conversion:
    """Make ``folder/NAME.hdf5``, unless a sound one is there already.

    Parameters
    ----------
    name
        A name of the catalogue.
    mirror
        Folder or address tried before the public addresses.
    file
        A raw file of the user's own to convert, instead of looking for one.
    fresh
        Make it again although it is there.
    report
        Called with a line for every place whose files were refused.
    unreachable
        Hosts not to be tried again; share it between calls to wait for a dead host only once.
    """
    entry, folder = find_entry(name), Path(folder)
    path = folder / f"{name}.hdf5"
    standing = None if fresh or file else _standing(name, folder, mirror)
    if standing is not None:
        return Conversion(path, standing, reused=True)
    sweep(path)
    if name == "bars":
        obtained = Obtained(bars.generate_splits(dict(entry.sizes)), "generated", "generated")
    elif file:
        obtained = _read_file(entry, Path(file))
    else:
        obtained = obtain(entry, raw=folder / "raw", mirror=mirror, report=report,
                          unreachable=unreachable)
    write_fuel_file(path, obtained.splits, _attributes(entry, obtained))
    return Conversion(path, load_dataset(name, folder), reused=False)

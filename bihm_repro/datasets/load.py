"""``load_dataset``: a data set as arrays, from ``data/NAME.hdf5`` or a path.

Binary sets come as uint8 zeros and ones. Grey sets come with float32 probabilities for training,
to be binarized by a fresh Bernoulli draw each epoch (the paper's footnote; see
:class:`bihm_repro.datasets.streams.BatchStream`), and with one fixed draw, 0/1 uint8, for valid
and test, so that their figures are comparable between epochs and runs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bihm_repro.datasets import bars
from bihm_repro.datasets.catalogue import CATALOGUE, Entry, find_entry, how_to_make
from bihm_repro.datasets.checks import check_entry, check_values
from bihm_repro.datasets.draws import fixed_draw, probabilities
from bihm_repro.datasets.fingerprints import SHORT, fingerprint_of_splits
from bihm_repro.datasets.hdf5 import SPLITS, Contents, read_fuel_file
from bihm_repro.errors import InputError

__all__ = ["OWN", "Dataset", "load_dataset"]

OWN = "own"
"""The exactness of a user's own data: nothing published to compare with."""


@dataclass(frozen=True)
class Dataset:
    """A data set in memory, and what has to be said of it wherever a number on it stands."""

    name: str
    splits: dict[str, np.ndarray]
    """``train``, ``valid`` and ``test``, each ``(examples, dim)``."""
    fingerprint: str
    """One SHA-256 over the content of all splits, free of row order."""
    exactness: str
    """``exact``, ``surrogate``, ``not the published draw``, ``generated``, ``unchecked`` or
    ``own``."""
    note: str = ""
    """What to say beside a number where the set is not exact; may be empty."""
    grey: bool = False
    """Whether ``train`` holds probabilities, to be binarized afresh each epoch."""
    image_shape: tuple[int, int] | None = None
    citation: str = ""
    source: str = ""
    entropy: float | None = None
    """Exact entropy of the generating process in nats, where it is known (``bars``)."""

    @property
    def dim(self) -> int:
        """Number of observed variables."""
        return self.splits["train"].shape[1]


def _generated(entry: Entry) -> Dataset:
    splits = bars.generate_splits(dict(entry.sizes))
    return Dataset(entry.name, splits, fingerprint_of_splits(splits, binary=True), "generated",
                   image_shape=entry.image_shape, citation=entry.citation, source="generated",
                   entropy=bars.ENTROPY)


def _find_file(name_or_path: str, folder: Path) -> tuple[str, Path]:
    """Return the data set's name and where its file is or would be."""
    path = Path(name_or_path)
    if path.suffix in (".hdf5", ".h5") or len(path.parts) > 1:
        return path.stem, path
    return str(path), folder / f"{name_or_path}.hdf5"


def _refuse_missing(name: str, path: Path, folder: Path) -> None:
    if path.parent != folder:
        raise InputError(f"{path}: no such data file; give a catalogue name or the path of a file "
                         f"made by `bihm data import FILE --name NAME`")
    try:
        find_entry(name)
    except InputError as error:
        where = "" if folder.is_dir() else f"; the folder {folder} of the data sets does not exist"
        raise InputError(f"{error}{where}") from None
    out = "" if folder == Path("data") else f" --out {folder}"
    raise InputError(f"{path} is not there yet; make it with `bihm data {name}{out}`")


def _check_splits(path: Path, contents: Contents) -> None:
    missing = [name for name in SPLITS if name not in contents.splits]
    if missing:
        raise InputError(f"{path}: no split {missing[0]!r}, only "
                         f"{', '.join(contents.splits) or 'none'}; `bihm data import {path} --name "
                         f"{path.stem}_split` cuts the missing ones")
    dims = {rows.shape[1] for rows in contents.splits.values()}
    if len(dims) > 1:
        raise InputError(f"{path}: the splits have different dimensions, {sorted(dims)}")


def load_dataset(name_or_path: str | os.PathLike[str],
                 folder: str | os.PathLike[str] = "data") -> Dataset:
    """Load a data set by catalogue name, by the name of an import, or by path.

    The file's content is checked against the fingerprint it was written with. ``bars`` needs no
    file.

    >>> data = load_dataset("bars")
    >>> data.splits["train"].shape, data.exactness
    ((2000, 16), 'generated')
    """
    folder = Path(folder)
    name, path = _find_file(os.fspath(name_or_path), folder)
    if not path.is_file():
        if name == "bars" and path.parent == folder:
            return _generated(CATALOGUE["bars"])
        _refuse_missing(name, path, folder)
    contents = read_fuel_file(path)
    _check_splits(path, contents)
    return _from_contents(name, path, contents)


def _provenance(name: str, path: Path, contents: Contents) -> dict[str, Any]:
    """Return the attributes that our converter wrote; a foreign Fuel file gets them worked out."""
    if "converter_version" in contents.attributes:
        return contents.attributes
    found: dict[str, Any] = {"name": name, "exactness": OWN, "source": str(path)}
    if contents.image_shape:
        found["image_shape"] = contents.image_shape
    if name in CATALOGUE and not CATALOGUE[name].grey:
        try:
            found["exactness"] = check_entry(CATALOGUE[name], contents.splits)
        except InputError as error:
            raise InputError(f"{path}: {error}; make it again with {how_to_make(name)}") \
                from error
    return found


def _check_label(name: str, path: Path, attributes: dict[str, Any], fingerprint: str) -> None:
    """Refuse a file that holds another set than its name says, or other rows than were written."""
    recorded = attributes.get("fingerprint", fingerprint)
    if recorded != fingerprint:
        raise InputError(f"{path}: its content has changed since it was written (fingerprint "
                         f"{fingerprint[:SHORT]}, recorded {str(recorded)[:SHORT]}); make it again "
                         f"with {how_to_make(name)}")
    if attributes["name"] != name and name in CATALOGUE:
        raise InputError(f"{path}: the file holds {attributes['name']}, not {name}; make it again "
                         f"with `bihm data {name} --fresh`")


def _from_contents(name: str, path: Path, contents: Contents) -> Dataset:
    attributes = _provenance(name, path, contents)
    stored = {split: contents.splits[split] for split in SPLITS}
    levels = int(attributes.get("levels", 1))
    grey = bool(attributes.get("grey", check_values(path, stored, levels)))
    fingerprint = fingerprint_of_splits(stored, binary=not grey)
    _check_label(name, path, attributes, fingerprint)
    if grey:
        splits = {split: probabilities(rows, levels) if split == "train"
                  else fixed_draw(rows, levels, split) for split, rows in stored.items()}
    else:
        splits = {split: rows.astype(np.uint8, copy=False) for split, rows in stored.items()}
    shape = attributes.get("image_shape")
    return Dataset(
        name=str(attributes["name"]), splits=splits, fingerprint=fingerprint,
        exactness=str(attributes["exactness"]), note=str(attributes.get("note", "")),
        grey=grey, image_shape=None if shape is None else (int(shape[0]), int(shape[1])),
        citation=str(attributes.get("citation", "")), source=str(attributes["source"]),
        entropy=bars.ENTROPY if attributes["exactness"] == "generated" else None)

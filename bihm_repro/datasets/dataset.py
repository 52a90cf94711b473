"""``load_dataset``: a data set as arrays, from ``data/NAME.hdf5`` or a path.

Binary sets are loaded as uint8 zeros and ones. Of grey sets, train is loaded as float32
probabilities, which the training stream binarizes by a new Bernoulli sample in each epoch (the
paper's footnote; see :class:`bihm_repro.datasets.streams.BatchStream`); valid and test are one
fixed sample, 0/1 uint8, so that their metrics are comparable between epochs and runs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bihm_repro.datasets import bars
from bihm_repro.datasets.checks import (
    SHORT,
    check_dataset,
    check_splits,
    check_values,
    fingerprint_of_splits,
)
from bihm_repro.datasets.hdf5 import Contents, read_fuel_file
from bihm_repro.datasets.info import GENERATED, OWN, SPLITS
from bihm_repro.datasets.readers import refusing
from bihm_repro.datasets.registry import DATASETS, dataset_info, remake_command
from bihm_repro.datasets.streams import fixed_sample, probabilities
from bihm_repro.errors import InputError

__all__ = ["Dataset", "load_dataset"]


@dataclass(frozen=True)
class Dataset:
    """A data set in memory, and what has to be said wherever a number on it is printed."""

    name: str
    splits: dict[str, np.ndarray]
    """``train``, ``valid`` and ``test``, each ``(examples, dim)``."""
    fingerprint: str
    """One SHA-256 over the content of all splits, independent of the order of rows."""
    exactness: str
    """``exact``, ``surrogate``, ``not the published draw``, ``generated``, ``unchecked`` or
    ``own``."""
    note: str = ""
    """What to say beside a number where the set is not exact; may be empty."""
    grey: bool = False
    """Whether ``train`` holds probabilities, to be binarized in each epoch."""
    image_shape: tuple[int, int] | None = None
    citation: str = ""
    source: str = ""
    entropy: float | None = None
    """Exact entropy of the generating process in nats, where it is known (``bars``)."""

    @property
    def dim(self) -> int:
        """Number of observed variables."""
        return self.splits["train"].shape[1]

    def binary(self, split: str) -> np.ndarray:
        """Return the rows of ``split`` to measure: of probabilities, one fixed binary sample."""
        rows = self.splits[split]
        return fixed_sample(rows, 1, split) if self.grey and split == "train" else rows


def _generated_bars() -> Dataset:
    info = DATASETS["bars"]
    splits = bars.generate_splits(dict(info.sizes))
    return Dataset(
        info.name,
        splits,
        fingerprint_of_splits(splits, binary=True),
        GENERATED,
        image_shape=info.image_shape,
        citation=info.citation,
        source=GENERATED,
        entropy=bars.ENTROPY,
    )


def _find_file(name_or_path: str, folder: Path) -> tuple[str, Path]:
    """Return the data set's name and the path of its file, which may not exist."""
    path = Path(name_or_path)
    if path.suffix in (".hdf5", ".h5") or len(path.parts) > 1:
        return path.stem, path
    return str(path), folder / f"{name_or_path}.hdf5"


def _refuse_missing(name: str, path: Path, folder: Path) -> None:
    if path.parent != folder:
        raise InputError(
            f"{path}: no such data file; give a registered name or the path of a file made by "
            f"`bihm data import FILE --name NAME`"
        )
    try:
        dataset_info(name)
    except InputError as error:
        where = "" if folder.is_dir() else f"; the folder {folder} of the data sets does not exist"
        raise InputError(f"{error}{where}") from None
    out = "" if folder == Path("data") else f" --out {folder}"
    raise InputError(f"{path} does not exist yet; make it with `bihm data {name}{out}`")


def load_dataset(
    name_or_path: str | os.PathLike[str], folder: str | os.PathLike[str] = "data"
) -> Dataset:
    """Load a data set by its registered name, by the name of an import, or by path.

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
            return _generated_bars()
        _refuse_missing(name, path, folder)
    advice = f"; make it again with {remake_command(name)}"
    contents = read_fuel_file(path, advice)
    with refusing(path, "data", advice):
        return _from_contents(name, path, contents)


def _attributes(name: str, path: Path, contents: Contents) -> dict[str, Any]:
    """Return the attributes that our converter wrote; those of other files are worked out."""
    if "converter_version" in contents.attributes:
        for key in ("name", "source", "exactness"):
            if key not in contents.attributes:
                raise InputError(
                    f"its attribute {key} is missing; make it again with {remake_command(name)}"
                )
        return contents.attributes
    found: dict[str, Any] = {"name": name, "exactness": OWN, "source": str(path)}
    if contents.image_shape:
        found["image_shape"] = contents.image_shape
    if name in DATASETS and not DATASETS[name].grey:
        try:
            found["exactness"] = check_dataset(DATASETS[name], contents.splits)
        except InputError as error:
            raise InputError(f"{error}; make it again with {remake_command(name)}") from error
    return found


def _check_identity(name: str, attributes: dict[str, Any], fingerprint: str) -> None:
    """Refuse a file that holds another set than its name says, or other rows than were written."""
    recorded = str(attributes.get("fingerprint", fingerprint))
    if recorded != fingerprint:
        raise InputError(
            f"its content has changed since it was written (fingerprint {fingerprint[:SHORT]}, "
            f"recorded {recorded[:SHORT]}); make it again with {remake_command(name)}"
        )
    if attributes["name"] != name and name in DATASETS:
        raise InputError(
            f"the file holds {attributes['name']}, not {name}; make it again with "
            f"{remake_command(name)}"
        )


def _from_contents(name: str, path: Path, contents: Contents) -> Dataset:
    missing = [split for split in SPLITS if split not in contents.splits]
    if missing:
        raise InputError(
            f"no split {missing[0]!r}, only {', '.join(contents.splits) or 'none'}; `bihm data "
            f"import {path} --name {path.stem}_split` cuts the missing ones from train"
        )
    attributes = _attributes(name, path, contents)
    stored = {split: contents.splits[split] for split in SPLITS}
    check_splits(path, stored)
    levels = int(attributes.get("levels", 1))
    grey = bool(attributes.get("grey", check_values(path, stored, levels)))
    fingerprint = fingerprint_of_splits(stored, binary=not grey)
    _check_identity(name, attributes, fingerprint)
    if grey:
        splits = {"train": probabilities(stored["train"], levels)}
        for split in ("valid", "test"):
            splits[split] = fixed_sample(stored[split], levels, split)
    else:
        splits = {split: rows.astype(np.uint8, copy=False) for split, rows in stored.items()}
    shape = attributes.get("image_shape")
    exactness = str(attributes["exactness"])
    return Dataset(
        name=str(attributes["name"]),
        splits=splits,
        fingerprint=fingerprint,
        exactness=exactness,
        note=str(attributes.get("note", "")),
        grey=grey,
        image_shape=None if shape is None else (int(shape[0]), int(shape[1])),
        citation=str(attributes.get("citation", "")),
        source=str(attributes["source"]),
        entropy=bars.ENTROPY if exactness == GENERATED else None,
    )

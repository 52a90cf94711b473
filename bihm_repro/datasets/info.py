"""What is known of a data set before any file of it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

__all__ = [
    "EXACT",
    "GENERATED",
    "NOT_PUBLISHED_DRAW",
    "OWN",
    "SPLITS",
    "SURROGATE",
    "UNCHECKED",
    "DatasetInfo",
    "Source",
]

SPLITS = ("train", "valid", "test")

# The values of ``exactness``.
EXACT = "exact"
SURROGATE = "surrogate"
NOT_PUBLISHED_DRAW = "not the published draw"
GENERATED = "generated"
UNCHECKED = "unchecked"
OWN = "own"


@dataclass(frozen=True)
class Source:
    """Files of one format that together make a data set.

    ``files`` maps a part (``all``, or ``train``/``valid``/``test``) to a URL; one without
    a scheme is a file name, looked for in the download folder and in the mirror.
    """

    kind: str
    """The format, which :func:`bihm_repro.datasets.sources.read_source` knows, or ``wheel``."""
    files: Mapping[str, str]
    sha256: Mapping[str, str] = field(default_factory=dict)
    """Published digests, by part."""

    def file_name(self, part: str) -> str:
        """Return the name that the file of ``part`` has in a mirror and in the download folder."""
        return PurePosixPath(self.files[part]).name

    @property
    def is_public(self) -> bool:
        """Whether the files have URLs, rather than names only."""
        return all("://" in url for url in self.files.values())

    def __str__(self) -> str:
        """Return the first file's name, and how many files there are besides."""
        first, *others = [self.file_name(part) for part in self.files]
        return f"{first} and {len(others)} more" if others else first


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set before any file of it is read."""

    name: str
    dim: int
    sizes: Mapping[str, int]
    """Examples in train, valid and test."""
    title: str
    citation: str
    image_shape: tuple[int, int] | None = None
    grey: bool = False
    """Whether the values are grey levels 0..255, the probabilities of binary pixels."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """By split, or by ``train+valid`` where only the union is known."""
    surrogate_fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Those of a partition that is not the published one."""
    sources: tuple[Source, ...] = ()
    exactness: str = EXACT
    note: str = ""
    """What has to be said beside a number on this set."""
    by_hand: str = ""
    """How to get the set where no URL has it."""

"""One place a data set comes from: a format, its files, and their published checksums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

__all__ = ["Source"]


@dataclass(frozen=True)
class Source:
    """Files of one format that together make a data set.

    ``files`` maps a part (``all``, or ``train``/``valid``/``test``) to an address; an address
    without a scheme is a bare file name, to be found in a mirror or put there by hand.
    """

    kind: str
    """``npz``, ``libsvm``, ``amat``, ``idx``, ``pickle``, ``wheel`` or ``mat``."""
    files: Mapping[str, str]
    sha256: Mapping[str, str] = field(default_factory=dict)
    """Published checksums, by part."""
    drop_last_column: bool = False
    """For tables whose last column is a target that means nothing."""

    def file_name(self, part: str) -> str:
        """Return the name that the file of ``part`` has in a mirror and in the download folder."""
        return PurePosixPath(self.files[part]).name

    @property
    def is_public(self) -> bool:
        """Whether the files have addresses, rather than bare names."""
        return all("://" in address for address in self.files.values())

"""Named arrays in .npz files: no pickles, and nothing is allocated before its header is checked.

Our own files are not compressed, so their arrays cannot be larger than the file. Compressed ones
are read up to a ratio that trained parameters stay far below.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.files import written_atomically

__all__ = [
    "Header",
    "check_headers",
    "fingerprint_of",
    "previous_of",
    "read_arrays",
    "write_arrays",
]

DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    EOFError,
    ArithmeticError,
    LookupError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What zipfile and numpy raise at damaged, encrypted or foreign archives."""
ENTRIES = 100_000
RATIO = 100
"""Largest ratio of an array to its compressed size."""
DTYPES = "biufU"
"""The kinds of dtype that an array may have: boolean, integer, floating point, text."""


class Header(NamedTuple):
    """What the header of an array says of it."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def __str__(self) -> str:
        return f"{self.dtype.name} of shape {self.shape}"


def write_arrays(
    path: str | os.PathLike[str],
    arrays: Mapping[str, np.ndarray],
    keep: str | os.PathLike[str] | None = None,
) -> None:
    """Write ``arrays`` to ``path`` (.npz) atomically; ``keep`` renames what was there."""
    with written_atomically(path, keep) as temporary, open(temporary, "wb") as handle:
        np.savez(handle, **arrays)


def read_arrays(
    path: str | os.PathLike[str], check: Callable[[dict[str, Header]], None] | None = None
) -> dict[str, np.ndarray]:
    """Read all arrays of an .npz file, once ``check`` has accepted their headers.

    A file that is damaged, encrypted, compressed beyond reason or holds anything but plain arrays
    is an InputError that names it.
    """
    try:
        if not os.stat(path).st_size:
            raise InputError("is damaged or cut short (it is empty)")
        with zipfile.ZipFile(path) as archive:
            entries = _entries(archive, _stated_number(path))
            headers = {name: _header(archive, info) for name, info in entries.items()}
            if check is not None:
                check(headers)
            return {name: _array(archive, info) for name, info in entries.items()}
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except DAMAGE as error:
        raise InputError(f"{path}: is damaged or cut short ({error})") from None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise InputError(f"{path}: is damaged or cut short ({error.strerror})") from None


def check_headers(
    found: Mapping[str, Any], expected: Mapping[str, np.ndarray], what: str = "array"
) -> None:
    """Refuse arrays, or their headers, with other names, shapes or types than ``expected``."""
    for name in sorted({*found, *expected}):
        if name not in found:
            raise InputError(f"{what} {name} is missing")
        if name not in expected:
            raise InputError(f"{what} {name} is unknown to this model")
        header = Header(found[name].shape, found[name].dtype)
        needed = Header(expected[name].shape, expected[name].dtype)
        if header.shape != needed.shape or header.dtype.kind != needed.dtype.kind:
            raise InputError(f"{what} {name} is {header}, expected {needed}")


def fingerprint_of(values: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of named arrays: names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, value in sorted(values.items()):
        digest.update(f"{name} {value.dtype.str} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


def _stated_number(path: str | os.PathLike[str]) -> int:
    """Return how many entries the end of the archive says there are; zipfile does not compare."""
    with open(path, "rb") as handle:
        handle.seek(-22, os.SEEK_END)
        end = handle.read()
    return int.from_bytes(end[10:12], "little") if end.startswith(b"PK\5\6") else -1


def _entries(archive: zipfile.ZipFile, number: int) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    names = [info.filename[:-4] for info in infos if info.filename.endswith(".npy")]
    if not infos or number != min(len(infos), 0xFFFF):
        raise InputError(f"is damaged: its directory lists {len(infos)} arrays, its end {number}")
    if len(set(names)) != len(infos) or len(infos) > ENTRIES:
        raise InputError("is damaged: its entries are not arrays with names of their own")
    for info in infos:
        if info.flag_bits & 1:
            raise InputError(f"its entry {info.filename!r} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(f"its entry {info.filename!r} is compressed by an unknown method")
    return dict(zip(names, infos))


def _header(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Header:
    with archive.open(info) as stream:
        header = _read_header(stream, info.filename)
        size = math.prod(header.shape) * header.dtype.itemsize
        if size != info.file_size - stream.tell():
            raise InputError(
                f"is damaged: its entry {info.filename!r} has not the size of {header}"
            )
    if info.compress_type != zipfile.ZIP_STORED and size > RATIO * (info.compress_size + 1000):
        raise InputError(
            f"its entry {info.filename!r} is compressed more than {RATIO} times; "
            "write it with numpy.savez"
        )
    return header


def _read_header(stream: IO[bytes], name: str) -> Header:
    if np.lib.format.read_magic(stream) != (1, 0):
        raise InputError(f"is damaged: its entry {name!r} is not a plain array")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.kind not in DTYPES or dtype.names or dtype.subdtype or dtype.hasobject:
        raise InputError(
            f"its entry {name!r} has the type {dtype}: only plain numbers and text are read"
        )
    if not all(isinstance(size, int) and 0 <= size < 2**40 for size in shape):
        raise InputError(f"is damaged: its entry {name!r} has shape {shape}")
    return Header(tuple(shape), dtype)


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    with archive.open(info) as stream:
        value = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read(1)  # reaches the end, where the checksum is compared
    if value.dtype.kind == "U":
        # numpy makes strings of any numbers; Python fails at those that are no characters.
        codes = np.frombuffer(value.tobytes(), np.dtype("u4").newbyteorder(value.dtype.byteorder))
        if (codes > sys.maxunicode).any():
            raise InputError(f"is damaged: its entry {info.filename!r} is not a text")
    return value


def previous_of(path: str | os.PathLike[str]) -> Path:
    """Return where the file that was at ``path`` before the last write is kept."""
    path = Path(path)
    return path.with_name(f"{path.stem}.previous{path.suffix}")

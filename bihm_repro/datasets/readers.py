"""Readers of the file formats: each returns plain arrays or raises one line that names the file.

Sizes are checked before anything is allocated: headers of arrays are read first, and decompression
ends at a limit.
"""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np

from bihm_repro.datasets.checks import MAX_BYTES, check_header
from bihm_repro.datasets.child import run_reader
from bihm_repro.errors import InputError

__all__ = [
    "Header",
    "mat_arrays",
    "open_decompressed",
    "read_bytes",
    "read_digits",
    "read_idx",
    "read_libsvm",
    "read_mat",
    "read_npy",
    "read_npz",
    "read_with_child",
    "refusing",
]

Header = tuple[tuple[int, ...], np.dtype]
"""Shape and type of a stored array."""
_BLOCK = 1 << 20


@contextmanager
def refusing(path: Path, what: str, advice: str = "") -> Iterator[None]:
    """Turn whatever a damaged file makes a reader raise into one line that names the file."""
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except InputError as error:
        raise InputError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: not a readable {what} file ({reason[:200]}){advice}") from error


@contextmanager
def open_decompressed(path: Path) -> Iterator[IO[bytes]]:
    """Open a file; it is decompressed where its first bytes are those of gzip or xz."""
    with open(path, "rb") as handle:
        first = handle.read(6)
        handle.seek(0)
        if first[:2] == b"\x1f\x8b":
            yield cast("IO[bytes]", gzip.GzipFile(fileobj=handle))
        elif first == b"\xfd7zXZ\x00":
            yield cast("IO[bytes]", lzma.LZMAFile(handle))
        else:
            yield handle


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Read a file, decompressed where needed, of at most ``limit`` bytes."""
    blocks, size = [], 0
    with open_decompressed(path) as stream:
        # In blocks, since a read allocates as many bytes as it is asked for.
        while size <= limit and (block := stream.read(_BLOCK)):
            blocks.append(block)
            size += len(block)
    if not size:
        raise InputError(f"{path}: is empty")
    if size > limit:
        raise InputError(f"{path}: holds more than {limit} bytes, the most that is read")
    return b"".join(blocks)


def _npy_header(stream: IO[bytes]) -> Header:
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):  # Later versions are for headers that no plain array has.
        raise ValueError(f"version {version} of the npy format is not supported")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    return shape, dtype


def _npy_array(name: str, stream: IO[bytes], stored: int) -> np.ndarray:
    """Read an array from a stream of ``stored`` bytes, after a check of its header."""
    if check_header(name, *_npy_header(stream)) > stored - stream.tell():
        raise ValueError(f"{name} is truncated")
    stream.seek(0)
    array = np.lib.format.read_array(stream, allow_pickle=False)
    stream.read(1)  # At its end, an archive compares the checksum.
    return array


def read_npy(path: Path) -> np.ndarray:
    """Read the array of an ``.npy`` file."""
    with refusing(path, "npy"), open(path, "rb") as stream:
        return _npy_array("its array", stream, path.stat().st_size)


def read_npz(
    path: Path, choose: Callable[[Mapping[str, Header]], Iterable[str]]
) -> dict[str, np.ndarray]:
    """Read the arrays of an ``.npz`` file that ``choose(headers)`` names."""
    with refusing(path, "npz"), zipfile.ZipFile(path) as archive:
        members = {
            member.filename[: -len(".npy")]: member
            for member in archive.infolist()
            if member.filename.endswith(".npy")
        }
        headers, arrays = {}, {}
        for name, member in members.items():
            with archive.open(member) as stream:
                headers[name] = _npy_header(stream)
        for name in choose(headers):
            with archive.open(members[name]) as stream:
                arrays[name] = _npy_array(f"the array {name}", stream, members[name].file_size)
    return arrays


def read_libsvm(
    path: Path,
    dim: int | None = None,
    limit: int = MAX_BYTES,
    say: Callable[[str], None] = lambda line: None,
) -> np.ndarray:
    """Read sparse rows into ``(examples, dim)`` float32, without the labels.

    Features are counted from 1. Without ``dim``, it is taken from the largest feature's number, and
    features may be counted from 0 as well; ``say`` is called with what was found.
    """
    with refusing(path, "libsvm"):
        entries, lowest, highest, number = [], 1, 0, 0
        for number, line in enumerate(read_bytes(path, limit).decode("ascii").splitlines(), 1):
            for pair in line.partition("#")[0].split()[1:]:
                feature, _, value = pair.partition(":")
                column = int(feature)
                if column < 0 or dim is not None and not 1 <= column <= dim:
                    raise ValueError(f"line {number}: feature {feature} is outside 1 to {dim}")
                lowest, highest = min(lowest, column), max(highest, column)
                entries.append((number - 1, column, float(value)))
        shape = (number, highest + 1 - lowest if dim is None else dim)
        check_header("the table", shape, np.dtype(np.float32))
        if dim is None:
            say(f"there are {shape[1]} features, counted from {lowest}; the labels are left out")
        rows = np.zeros(shape, dtype=np.float32)
        if entries:
            at, columns, values = zip(*entries)
            rows[list(at), np.subtract(columns, lowest)] = values
    return rows


def _single_digits(data: bytes) -> np.ndarray | None:
    """Parse a table of digits 0 and 1, one separator each and lines of one length, at once."""
    width = data.find(b"\n") + 1
    if width < 2 or len(data) % width:
        return None
    table = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    digits, separators = table[:, 0::2], table[:, 1::2]
    if (
        ((digits | 1) != ord("1")).any()
        or (separators[:, -1] != 10).any()
        or (separators[:, :-1] != 32).any()
    ):
        return None
    return digits - np.uint8(ord("0"))


def read_digits(path: Path, limit: int = MAX_BYTES) -> np.ndarray:
    """Read a table of numbers: uint8 where all are the digits 0 and 1, else float32."""
    with refusing(path, "text table"):
        data = read_bytes(path, limit)
        rows = _single_digits(data)
        if rows is None:
            rows = np.loadtxt(io.StringIO(data.decode("ascii")), dtype=np.float32, ndmin=2)
    return rows


def read_idx(path: Path, limit: int = MAX_BYTES) -> np.ndarray:
    """Read images of unsigned bytes into ``(examples, height * width)`` uint8."""
    with refusing(path, "idx"):
        data = read_bytes(path, limit)
        magic, count, height, width = struct.unpack(">IIII", data[:16])
        if magic != 0x0803:
            raise ValueError(f"its first four bytes are {magic:#010x}, not 0x00000803")
        if len(data) != 16 + count * height * width:
            raise ValueError(f"{len(data)} bytes where {16 + count * height * width} are needed")
        return np.frombuffer(data, dtype=np.uint8, offset=16).reshape(count, height * width)


def read_with_child(reader: str, path: Path) -> dict[str, np.ndarray]:
    """Return the arrays that the function ``reader`` (``module:function``) reads in a child."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "arrays.npz"
        run_reader(reader, path, output)
        return {name[1:]: array for name, array in read_npz(output, list).items()}


def mat_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the numeric variables of a MATLAB file; sparse ones are made dense."""
    from scipy.io import loadmat, whosmat
    from scipy.sparse import issparse

    # A double may be stored in fewer bytes, but has eight of them in memory.
    sizes = {"double": 8, "single": 4, "logical": 1, "sparse": 8}
    sizes |= {f"{sign}int{8 * size}": size for sign in ("", "u") for size in (1, 2, 4, 8)}
    names = []
    for name, shape, kind in whosmat(str(path)):
        if kind in sizes:
            check_header(f"the variable {name}", shape, np.dtype(f"u{sizes[kind]}"))
            names.append(name)
    found = loadmat(str(path), variable_names=names) if names else {}
    for name in names:
        if issparse(found[name]):
            found[name].check_format(full_check=True)
            found[name] = found[name].toarray()
    return {name: found[name] for name in names}


def read_mat(
    path: Path, choose: Callable[[Mapping[str, Header]], Iterable[str]]
) -> dict[str, np.ndarray]:
    """Read the numeric variables of a MATLAB file that ``choose(headers)`` names."""
    with open(path, "rb") as handle:
        if b"MATLAB 7.3" in handle.read(32):
            raise InputError(
                f"{path}: is a MATLAB 7.3 file; save it in MATLAB with the option '-v7', or the "
                f"array as .npy or .csv"
            )
    with refusing(path, "MATLAB"):
        arrays = read_with_child(f"{__name__}:mat_arrays", path)
        headers = {name: (rows.shape, rows.dtype) for name, rows in arrays.items()}
        return {name: arrays[name] for name in choose(headers)}

"""Readers of the formats that the public sources use; each returns plain arrays or refuses.

=========  =====================================================================================
``npz``    the MADE release: ``train_data``, ``valid_data``, ``test_data``
``libsvm`` a label, then ``index:value`` pairs counted from 1
``amat``   a table of numbers as text, one example a line
``idx``    the original MNIST image files
``pickle`` MNIST as three pairs of images and labels, grey levels ``k/256``
``mat``    the Toronto Face Database as MATLAB version 5: ``images`` and ``folds``
=========  =====================================================================================

Any of them may be compressed with gzip or xz.
"""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bihm_repro.datasets.safe_pickle import load_arrays
from bihm_repro.errors import InputError

__all__ = ["read_amat", "read_idx", "read_libsvm", "read_mat", "read_npz", "read_pickle"]

_BROKEN = (EOFError, KeyError, IndexError, TypeError, ValueError, OSError, zipfile.BadZipFile,
           zlib.error, lzma.LZMAError, struct.error, NotImplementedError, MemoryError)


@contextmanager
def _refusing(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a broken file makes a reader raise into one line that names the file."""
    try:
        yield
    except (InputError, FileNotFoundError, PermissionError):
        raise
    except _BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: not a complete {what} file ({reason[:200]})") from error


def _read_bytes(path: Path) -> bytes:
    """Read a file, decompressed where its first bytes say gzip or xz."""
    data = path.read_bytes()
    if not data:
        raise EOFError("it is empty")
    if data[:2] == b"\x1f\x8b":
        return gzip.decompress(data)
    if data[:6] == b"\xfd7zXZ\x00":
        return lzma.decompress(data)
    return data


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Read the three splits of a file in the format of the MADE release."""
    with _refusing(path, "npz"), open(path, "rb") as handle:
        with np.load(handle, allow_pickle=False) as archive:
            missing = [name for name in ("train", "valid", "test")
                       if f"{name}_data" not in archive]
            if missing:
                raise ValueError(f"no array {missing[0]}_data, only {', '.join(archive.files)}")
            return {name: archive[f"{name}_data"] for name in ("train", "valid", "test")}


def read_libsvm(path: Path, dim: int) -> np.ndarray:
    """Read sparse rows into ``(examples, dim)`` float32, without the labels."""
    with _refusing(path, "libsvm"):
        lines = _read_bytes(path).decode("ascii").splitlines()
        rows = np.zeros((len(lines), dim), dtype=np.float32)
        for number, line in enumerate(lines):
            for pair in line.split()[1:]:
                index, _, value = pair.partition(":")
                if not 1 <= int(index) <= dim:
                    raise ValueError(f"line {number + 1}: feature {index} is outside 1 to {dim}")
                rows[number, int(index) - 1] = float(value)
    return rows


def _digits_of(data: bytes) -> np.ndarray | None:
    """Parse a table of single digits, one separator each and lines of one length, in one go."""
    width = data.find(b"\n") + 1
    if width < 2 or len(data) % width:
        return None
    table = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    digits, separators = table[:, 0::2], table[:, 1::2]
    if ((digits | 1) != ord("1")).any() or (separators[:, -1] != 10).any() \
            or (separators[:, :-1] != 32).any():
        return None
    return digits - np.uint8(ord("0"))


def read_amat(path: Path, *, drop_last_column: bool = False) -> np.ndarray:
    """Read a table of numbers, uint8 where all are single digits 0 and 1, else float32."""
    with _refusing(path, "text table"):
        data = _read_bytes(path)
        rows = _digits_of(data)
        if rows is None:
            text = io.StringIO(data.decode("ascii"))
            rows = np.loadtxt(text, dtype=np.float32, ndmin=2)
    return rows[:, :-1] if drop_last_column else rows


def read_idx(path: Path) -> np.ndarray:
    """Read images of unsigned bytes into ``(examples, height * width)`` uint8."""
    with _refusing(path, "idx"):
        data = _read_bytes(path)
        magic, count, height, width = struct.unpack(">iiii", data[:16])
        if magic != 0x0803:
            raise ValueError(f"its first four bytes are {magic:#010x}, not 0x00000803")
        if len(data) != 16 + count * height * width:
            raise ValueError(f"{len(data)} bytes where {16 + count * height * width} are needed")
        return np.frombuffer(data, dtype=np.uint8, offset=16).reshape(count, height * width)


def read_pickle(path: Path) -> dict[str, np.ndarray]:
    """Read MNIST's grey levels, 0..255 as uint8, from the pickle of three (images, labels)."""
    with _refusing(path, "MNIST pickle"):
        parts = load_arrays(_read_bytes(path))
        splits = {}
        for name, (images, _labels) in zip(("train", "valid", "test"), parts):
            levels = np.asarray(images, dtype=np.float32) * np.float32(256)
            if levels.ndim != 2 or not ((levels >= 0) & (levels <= 255)).all() \
                    or (levels != np.rint(levels)).any():
                raise ValueError(f"{name} is not made of grey levels k/256")
            splits[name] = levels.astype(np.uint8)
        if len(splits) != 3:
            raise ValueError(f"{len(splits)} parts where 3 are needed")
    return splits


def read_mat(path: Path, fold: int = 0) -> dict[str, np.ndarray]:
    """Read the Toronto Face Database: unlabeled images for training, fold ``fold`` for the rest.

    ``images`` is ``(examples, 48, 48)`` uint8; ``folds`` is ``(examples, 5)`` with 0 for
    unlabeled, 1 train, 2 valid and 3 test. The paper trains on the unlabeled section.
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    with _refusing(path, "MATLAB version 5"):
        try:
            content = loadmat(str(path), variable_names=["images", "folds"])
        except MatReadError as error:
            raise ValueError(str(error)) from error
        images, folds = content["images"], content["folds"]
        if images.ndim != 3 or images.shape[1:] != (48, 48) or images.dtype != np.uint8:
            raise ValueError(f"images is {images.dtype} {images.shape}, not uint8 (N, 48, 48)")
        if folds.ndim != 2 or len(folds) != len(images) or folds.shape[1] <= fold:
            raise ValueError(f"folds is {folds.shape} for {len(images)} images")
        rows = images.reshape(len(images), -1)
        return {name: rows[folds[:, fold] == code]
                for name, code in (("train", 0), ("valid", 2), ("test", 3))}



"""Every raw format: what is written comes back; what is broken or too large is refused by name."""

import gzip
import io
import lzma
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
import scipy.io

from bihm_repro.datasets import checks, readers
from bihm_repro.datasets.info import DatasetInfo, Source
from bihm_repro.datasets.registry import DATASETS
from bihm_repro.datasets.sources import read_source
from bihm_repro.errors import InputError

ROWS = np.random.default_rng(0).integers(0, 2, size=(6, 9)).astype(np.uint8)
INFO = DatasetInfo("tiny", 9, {"train": 6, "valid": 3, "test": 3}, "Tiny", "nobody")
SPLITS = {"train": ROWS, "valid": ROWS[:3], "test": ROWS[3:]}


def as_amat(rows, ending=" \n"):
    """Larochelle's layout: a blank after every number."""
    return "".join(" ".join(map(str, row)) + ending for row in rows).encode()


def as_libsvm(rows):
    return "".join(
        f"{row.sum() % 2} " + " ".join(f"{i + 1}:1" for i in np.flatnonzero(row)) + " \n"
        for row in rows
    ).encode()


def as_idx(images, magic=0x0803):
    return struct.pack(">IIII", magic, *images.shape) + images.tobytes()


def as_npz(arrays, save=np.savez):
    stream = io.BytesIO()
    save(stream, **arrays)
    return stream.getvalue()


def put(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return path


def read_made(path):
    return read_source(INFO, Source("npz", {"all": "tiny.npz"}), {"all": path})


def read_tfd(path):
    return read_source(DATASETS["tfd"], DATASETS["tfd"].sources[0], {"all": path})


def test_npz_of_the_made_release(tmp_path):
    arrays = {f"{name}_data": rows.astype("f4") for name, rows in SPLITS.items()}
    path = put(tmp_path, "x.npz", as_npz({**arrays, "train_length": 6, "inputsize": 9}))
    splits = read_made(path)
    assert list(splits) == ["train", "valid", "test"]
    assert all((splits[name] == rows).all() for name, rows in SPLITS.items())


@pytest.mark.parametrize("ending", ["\n", " \n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_amat_plain_and_compressed(tmp_path, pack, ending):
    path = put(tmp_path, "x.amat", pack(as_amat(ROWS, ending)))
    assert (readers.read_digits(path) == ROWS).all()
    files = dict.fromkeys(SPLITS, path)
    splits = read_source(INFO, Source("amat+label", files), files)
    assert all((rows == ROWS[:, :-1]).all() for rows in splits.values())


def test_lines_of_one_length_with_single_blanks_are_read_at_once():
    assert (readers._single_digits(as_amat(ROWS, "\n")) == ROWS).all()
    for other in (b"", b"\n", as_amat(ROWS), b"0 1\n0  1\n", b"0 2\n", b"0\t1\n", b"0 1\n0 1"):
        assert readers._single_digits(other) is None


def test_the_size_of_an_array_follows_from_its_header():
    for shape, size in (((), 8), ((3,), 24), ((0, 3), 0), ((2, 3), 48)):
        assert checks.check_header("x", shape, np.dtype(float)) == size
    for shape in ((-1,), (3, -2)):
        with pytest.raises(InputError, match="with a negative number"):
            checks.check_header("x", shape, np.dtype(float))
    most = checks.MAX_BYTES // 8
    assert checks.check_header("x", (most,), np.dtype(float)) == checks.MAX_BYTES
    with pytest.raises(InputError, match="would take"):
        checks.check_header("x", (most + 1,), np.dtype(float))


def test_amat_with_other_spacing_and_numbers(tmp_path):
    path = put(tmp_path, "x.amat", b"1.0  0\t0.5\n0 1.0 0\n")
    assert readers.read_digits(path).tolist() == [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]


def test_libsvm(tmp_path):
    path = put(tmp_path, "x.libsvm", as_libsvm(ROWS))
    assert (readers.read_libsvm(path, 9) == ROWS).all()
    with pytest.raises(InputError, match="outside 1 to 2"):
        readers.read_libsvm(path, 2)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx(tmp_path, pack):
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    path = put(tmp_path, "x-idx3-ubyte.gz", pack(as_idx(images)))
    assert (readers.read_idx(path) == images.reshape(2, 12)).all()


def faces(count=20):
    """A small file with the structure of TFD_48x48.mat."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, size=(count, 48, 48)).astype(np.uint8)
    folds = np.tile(np.arange(count)[:, None] % 4, (1, 5)).astype(np.uint8)
    return images, folds


def test_toronto_faces(tmp_path):
    images, folds = faces()
    path = tmp_path / "TFD_48x48.mat"
    scipy.io.savemat(path, {"images": images, "folds": folds, "labs_ex": folds[:, :1]})
    splits = read_tfd(path)
    for name, code in (("train", 0), ("valid", 2), ("test", 3)):
        assert (splits[name] == images[code::4].reshape(5, -1)).all()
        assert splits[name].dtype == np.uint8


@pytest.mark.parametrize(
    "change",
    [
        {"images": np.zeros((20, 32, 32), np.uint8)},
        {"images": np.zeros((20, 48, 48))},
        {"folds": np.zeros((7, 5), np.uint8)},
    ],
)
def test_other_mat_files_are_refused(tmp_path, change):
    images, folds = faces()
    path = tmp_path / "x.mat"
    scipy.io.savemat(path, {"images": images, "folds": folds, **change})
    with pytest.raises(InputError, match="x.mat: not a readable MATLAB file"):
        read_tfd(path)


ARRAYS = {f"{name}_data": rows for name, rows in SPLITS.items()}
READERS = {
    "npz": (read_made, as_npz(ARRAYS, np.savez_compressed)),
    "libsvm": (lambda path: readers.read_libsvm(path, 9), gzip.compress(as_libsvm(ROWS))),
    "amat": (readers.read_digits, lzma.compress(as_amat(ROWS))),
    "idx": (readers.read_idx, as_idx(ROWS[:, :, None])),
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("damage", ["half", "empty", "page", "flipped"])
def test_damaged_files_are_refused_in_one_line(tmp_path, kind, damage):
    read, data = READERS[kind]
    read(put(tmp_path, "whole", data))
    broken = {
        "half": data[: len(data) // 2],
        "empty": b"",
        "page": b"<html>Not found</html>\n",
        "flipped": bytes([data[0] ^ 255]) + data[1:],
    }[damage]
    path = put(tmp_path, "broken", broken)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_an_idx_file_of_labels_is_refused(tmp_path):
    path = put(tmp_path, "x", as_idx(ROWS[:, :, None], magic=0x0801))
    with pytest.raises(InputError, match="0x00000801"):
        readers.read_idx(path)


def npy(shape, descr="|u1", version=1, data=b""):
    """An npy file whose header claims ``shape``."""
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def zipped(members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


@pytest.fixture
def nothing_allocated(monkeypatch):
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("allocated"))


def test_an_array_of_another_shape_than_registered_is_not_allocated(tmp_path, nothing_allocated):
    bomb = {f"{name}_data.npy": npy((10**6, 9), data=bytes(9 * 10**6)) for name in SPLITS}
    path = put(tmp_path, "x.npz", zipped(bomb))
    assert path.stat().st_size < 50_000
    with pytest.raises(InputError, match="1000000 rows where 6 are expected"):
        read_made(path)


@pytest.mark.parametrize(
    "data, message",
    [
        (npy((10**6, 10**6)), "would take 931.3 GiB"),
        (npy((-5, 9)), "negative"),
        (npy((6, 9)), "truncated"),
        (npy((6, 9), "|O"), "plain numbers"),
        (npy((6, 9), [("a", "|u1")]), "plain numbers"),
        (npy((6, 9), version=2), "version"),
        (npy("(" * 300), "not a readable"),
        (b"\x93NUMPY\x01\x00\xff\xff", "not a readable"),
    ],
)
def test_headers_are_checked_before_anything_is_allocated(
    tmp_path, nothing_allocated, data, message
):
    path = put(tmp_path, "x.npy", data)
    with pytest.raises(InputError, match=message):
        readers.read_npy(path)
    path = put(tmp_path, "x.npz", zipped({"a.npy": data}))
    with pytest.raises(InputError, match=message):
        readers.read_npz(path, list)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_decompression_ends_at_the_limit(tmp_path, pack):
    path = put(tmp_path, "x.amat", pack(b"0 1\n" * 1000))
    assert len(readers.read_digits(path, limit=4000)) == 1000
    with pytest.raises(InputError, match="x.amat: holds more than 3999 bytes"):
        readers.read_digits(path, limit=3999)


def test_a_small_file_needs_little_memory(tmp_path):
    path = put(tmp_path, "x.csv", b"0,1\n" * 10)
    tracemalloc.start()
    try:
        assert len(readers.read_bytes(path)) == 40
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_the_limit_of_a_registered_set_is_a_multiple_of_its_size(tmp_path):
    path = put(tmp_path, "x.amat", gzip.compress(b"0" * 80_000))
    files = dict.fromkeys(SPLITS, path)
    with pytest.raises(InputError, match="holds more than 68128 bytes"):
        read_source(INFO, Source("amat", files), files)


def test_an_encrypted_archive_is_refused_in_one_line(tmp_path):
    data = bytearray(as_npz(ARRAYS))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := data.find(mark, start + 1)) >= 0:
            data[start + offset] |= 1
    path = put(tmp_path, "x.npz", bytes(data))
    with pytest.raises(InputError, match="x.npz: not a readable npz file .*encrypted"):
        read_made(path)


def test_the_size_of_a_sparse_table_is_checked(tmp_path):
    path = put(tmp_path, "x.libsvm", b"1 " + str(checks.MAX_BYTES).encode() + b":1\n")
    with pytest.raises(InputError, match="at most 2 GiB are read"):
        readers.read_libsvm(path)

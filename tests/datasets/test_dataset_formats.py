"""Every raw format: what is written comes back; what is broken is refused by name."""

import gzip
import lzma
import os
import pickle
import struct

import numpy as np
import pytest
import scipy.io

from bihm_repro.datasets import formats
from bihm_repro.datasets.safe_pickle import load_arrays
from bihm_repro.errors import InputError

ROWS = np.random.default_rng(0).integers(0, 2, size=(6, 9)).astype(np.uint8)


def as_amat(rows, ending=" \n"):
    """Larochelle's layout: a blank after every number."""
    return "".join(" ".join(map(str, row)) + ending for row in rows).encode()


def as_libsvm(rows):
    return "".join(f"{row.sum() % 2} " + " ".join(
        f"{column + 1}:1" for column in np.flatnonzero(row)) + " \n" for row in rows).encode()


def as_idx(images, magic=0x0803):
    return struct.pack(">iiii", magic, *images.shape) + images.tobytes()


def grey_pickle(levels):
    images = (levels / 256).astype(np.float32)
    labels = np.zeros(len(levels), dtype=np.int64)
    return pickle.dumps(tuple((images, labels) for _ in range(3)), protocol=3)


def put(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return path


def test_npz_of_the_made_release(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, train_data=ROWS.astype("f4"), valid_data=ROWS[:3], test_data=ROWS[3:],
             train_length=6, inputsize=9)
    splits = formats.read_npz(path)
    assert list(splits) == ["train", "valid", "test"]
    assert (splits["train"] == ROWS).all() and (splits["test"] == ROWS[3:]).all()


@pytest.mark.parametrize("ending", ["\n", " \n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_amat_plain_and_compressed(tmp_path, pack, ending):
    path = put(tmp_path, "x.amat", pack(as_amat(ROWS, ending)))
    assert (formats.read_amat(path) == ROWS).all()
    assert (formats.read_amat(path, drop_last_column=True) == ROWS[:, :-1]).all()


def test_amat_with_other_spacing_and_numbers(tmp_path):
    path = put(tmp_path, "x.amat", b"1.0  0\t0.5\n0 1.0 0\n")
    assert formats.read_amat(path).tolist() == [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]


def test_libsvm(tmp_path):
    path = put(tmp_path, "x.libsvm", as_libsvm(ROWS))
    assert (formats.read_libsvm(path, 9) == ROWS).all()
    with pytest.raises(InputError, match="outside 1 to 2"):
        formats.read_libsvm(path, 2)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx(tmp_path, pack):
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    path = put(tmp_path, "x-idx3-ubyte.gz", pack(as_idx(images)))
    assert (formats.read_idx(path) == images.reshape(2, 12)).all()


def test_pickle_of_grey_levels(tmp_path):
    levels = np.arange(256, dtype=np.int64).reshape(4, 64)
    path = put(tmp_path, "mnist.pkl.gz", gzip.compress(grey_pickle(levels)))
    splits = formats.read_pickle(path)
    assert list(splits) == ["train", "valid", "test"]
    assert splits["valid"].dtype == np.uint8 and (splits["valid"] == levels).all()


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
    splits = formats.read_mat(path)
    for name, code in (("train", 0), ("valid", 2), ("test", 3)):
        assert (splits[name] == images[code::4].reshape(5, -1)).all()
        assert splits[name].dtype == np.uint8


@pytest.mark.parametrize("change", [
    {"images": np.zeros((20, 32, 32), np.uint8)}, {"images": np.zeros((20, 48, 48))},
    {"folds": np.zeros((7, 5), np.uint8)}])
def test_other_mat_files_are_refused(tmp_path, change):
    images, folds = faces()
    path = tmp_path / "x.mat"
    scipy.io.savemat(path, {"images": images, "folds": folds, **change})
    with pytest.raises(InputError, match="x.mat"):
        formats.read_mat(path)


class Malicious:
    def __reduce__(self):
        return os.system, ("touch hacked",)


def test_a_pickle_that_names_a_function_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = put(tmp_path, "mnist.pkl.gz", gzip.compress(pickle.dumps(Malicious())))
    with pytest.raises(InputError, match="system"):
        formats.read_pickle(path)
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("module", [b"numpy.core.multiarray", b"numpy._core.multiarray"])
def test_arrays_of_either_numpy_are_admitted(module):
    array = np.arange(3, dtype=np.float32)
    data = pickle.dumps([array], protocol=3).replace(b"numpy._core.", b"numpy.core.")
    data = data.replace(b"numpy.core.multiarray", module)
    assert module in data
    assert (load_arrays(data)[0] == array).all()


def npz_bytes(tmp_path):
    path = tmp_path / "whole.npz"
    np.savez_compressed(path, train_data=ROWS, valid_data=ROWS, test_data=ROWS)
    return path.read_bytes()


READERS = {
    "npz": (formats.read_npz, npz_bytes),
    "libsvm": (lambda path: formats.read_libsvm(path, 9), lambda _: gzip.compress(as_libsvm(ROWS))),
    "amat": (formats.read_amat, lambda _: lzma.compress(as_amat(ROWS))),
    "idx": (formats.read_idx, lambda _: as_idx(ROWS[:, :, None])),
    "pickle": (formats.read_pickle, lambda _: gzip.compress(grey_pickle(ROWS))),
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("damage", ["half", "empty", "page", "flipped"])
def test_damaged_files_are_refused_in_one_line(tmp_path, kind, damage):
    read, make = READERS[kind]
    data = make(tmp_path)
    path = put(tmp_path, "whole", data)
    read(path)
    middle = len(data) // 2
    broken = {"half": data[:middle], "empty": b"", "page": b"<html>Not found</html>\n",
              "flipped": bytes([data[0] ^ 255]) + data[1:]}[damage]
    path = put(tmp_path, "broken", broken)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_an_idx_file_of_labels_is_refused(tmp_path):
    path = put(tmp_path, "x", as_idx(ROWS[:, :, None], magic=0x0801))
    with pytest.raises(InputError, match="0x00000801"):
        formats.read_idx(path)

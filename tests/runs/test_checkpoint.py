"""Checkpoints: whole or not at all, with the previous one to fall back to."""

from __future__ import annotations

import errno
import os
import pickle
import zipfile

import numpy as np
import pytest

from bihm_repro.errors import InputError
from bihm_repro.runs.arrays import previous_of, read_arrays, write_arrays
from bihm_repro.runs.checkpoint import read_checkpoint, write_checkpoint

ARRAYS = {"a/W": np.arange(6, dtype=np.float32).reshape(2, 3), "count": np.array(7)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.npz"


def test_arrays_and_record_come_back_as_they_went(path):
    record = {"sum": 0.1 + 0.2, "rows": [{"best": True, "x": None}], "big": 2**60}
    write_checkpoint(path, ARRAYS, record)
    back = read_checkpoint(path)
    assert back.record == record
    assert set(back.arrays) == set(ARRAYS)
    for name, value in ARRAYS.items():
        assert back.arrays[name].dtype == value.dtype
        np.testing.assert_array_equal(back.arrays[name], value)


def test_nothing_there_is_none(path):
    assert read_checkpoint(path) is None


def test_the_previous_checkpoint_is_kept(path):
    for number in range(3):
        write_checkpoint(path, ARRAYS, {"number": number})
    assert read_checkpoint(path).record == {"number": 2}
    path.unlink()
    assert read_checkpoint(path).record == {"number": 1}


def damaged_middle(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: os.truncate(path, 0),
        lambda path: path.write_bytes(b"not an archive"),
        damaged_middle,
    ],
    ids=["half", "empty", "text", "flipped bits"],
)
def test_a_damaged_file_falls_back_and_says_so(path, damage, capsys):
    write_checkpoint(path, {"w": np.zeros(1000)}, {"number": 1})
    write_checkpoint(path, {"w": np.zeros(1000)}, {"number": 2})
    damage(path)
    assert read_checkpoint(path).record == {"number": 1}
    assert "state.npz: is damaged or cut short" in capsys.readouterr().err


def test_two_damaged_files_are_an_error(path):
    path.write_bytes(b"x")
    previous_of(path).write_bytes(b"y")
    with pytest.raises(InputError, match="state.previous.npz: is damaged.*--fresh"):
        read_checkpoint(path)


def test_another_archive_is_no_checkpoint(path):
    write_arrays(path, ARRAYS)
    with pytest.raises(InputError, match="is not a checkpoint"):
        read_checkpoint(path)


def test_pickles_are_refused(path):
    np.savez(path, w=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="has the type object: only plain numbers"):
        read_arrays(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", pickle.dumps({"a": 1}))
    with pytest.raises(InputError, match="is damaged or cut short"):
        read_arrays(path)


@pytest.mark.parametrize("moment", ["savez", "fsync", "replace"])
def test_a_full_disk_loses_nothing(path, monkeypatch, moment):
    write_checkpoint(path, ARRAYS, {"number": 1})

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(np if moment == "savez" else os, moment, full)
        with pytest.raises(OSError, match="No space left"):
            write_checkpoint(path, ARRAYS, {"number": 2})
    assert read_checkpoint(path).record == {"number": 1}
    leftover = {item.name for item in path.parent.iterdir()} - {path.name, previous_of(path).name}
    assert not leftover


def test_a_record_that_is_no_number_is_refused_before_anything_is_touched(path):
    write_checkpoint(path, ARRAYS, {"number": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_checkpoint(path, ARRAYS, {"number": float("nan")})
    assert read_checkpoint(path).record == {"number": 1}

"""Conversion killed at the worst moments: the old file or the new one, and nothing lying about."""

import os
import subprocess
import sys

import pytest

from bihm_repro.datasets import load_dataset
from bihm_repro.datasets.convert import convert
from bihm_repro.datasets.hdf5 import sweep

KILLED = """
import os, signal, sys
import h5py
from bihm_repro.datasets import bars
from bihm_repro.datasets.convert import convert
moment, folder = sys.argv[1], sys.argv[2]
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def after(function):
    def call(*arguments, **named):
        function(*arguments, **named)
        die()
    return call
if moment == "first rows":
    h5py.Dataset.__setitem__ = die
elif moment == "rows written":
    h5py.Dataset.__setitem__ = after(h5py.Dataset.__setitem__)
elif moment == "file closed":
    os.fsync = die
elif moment == "before the rename":
    os.replace = die
elif moment == "after the rename":
    os.replace = after(os.replace)
convert("bars", folder, fresh=True)
"""


@pytest.mark.parametrize("moment", ["first rows", "rows written", "file closed",
                                    "before the rename", "after the rename"])
def test_a_killed_conversion_leaves_the_old_file_or_the_new_one(tmp_path, moment):
    path = convert("bars", tmp_path).path
    old = path.stat().st_ino
    done = subprocess.run([sys.executable, "-c", KILLED, moment, str(tmp_path)],
                          capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    assert (path.stat().st_ino == old) == (moment != "after the rename")
    load_dataset("bars", tmp_path)
    leftovers = list(tmp_path.glob(".bars.*"))
    assert len(leftovers) == (moment != "after the rename")
    for leftover in leftovers:
        os.utime(leftover, (0, 0))
    convert("bars", tmp_path, fresh=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["bars.hdf5"]


def test_a_running_writers_file_is_left_alone(tmp_path):
    mine = tmp_path / f".bars.{os.getpid()}-abcd.hdf5"
    mine.touch()
    os.utime(mine, (0, 0))
    sweep(tmp_path / "bars.hdf5")
    assert mine.exists()

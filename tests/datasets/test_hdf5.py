"""Data files: Fuel's layout, the digest, files of others, and conversions that are killed."""

import os
import re
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest

from bihm_repro.datasets import child, hdf5, load_dataset
from bihm_repro.datasets.convert import convert
from bihm_repro.datasets.hdf5 import read_fuel_file, write_fuel_file
from bihm_repro.errors import InputError

RANDOM = np.random.default_rng(0)
SPLITS = {
    name: RANDOM.integers(0, 2, size=(count, 9)).astype(np.uint8)
    for name, count in (("train", 30), ("valid", 10), ("test", 20))
}


def read_as_fuel_documents_it(path):
    """An independent reader of Fuel's layout, from its documentation alone."""
    with h5py.File(path, "r") as file:
        table = file.attrs["split"]
        names = ("split", "source", "start", "stop", "indices", "available", "comment")
        assert table.dtype.names == names
        assert table.dtype["split"].kind == table.dtype["source"].kind == "S"
        assert table.dtype["start"] == table.dtype["stop"] == np.int64
        assert h5py.check_dtype(ref=table.dtype["indices"]) is h5py.Reference
        result = {}
        for row in table:
            assert row["available"] and not row["indices"]
            source = row["source"].decode()
            labels = [dimension.label for dimension in file[source].dims]
            rows = file[source][row["start"] : row["stop"]]
            result[row["split"].decode()] = (source, labels, rows)
    return result


def test_the_file_has_fuels_layout(tmp_path):
    write_fuel_file(tmp_path / "mine.hdf5", SPLITS, {})
    found = read_as_fuel_documents_it(tmp_path / "mine.hdf5")
    assert list(found) == ["train", "valid", "test"]
    for name, (source, labels, rows) in found.items():
        assert source == "features" and labels == ["batch", "feature"]
        assert rows.dtype == np.uint8 and (rows == SPLITS[name]).all()


@pytest.mark.skipif(
    "BIHM_FUEL_PYTHON" not in os.environ,
    reason="BIHM_FUEL_PYTHON names no interpreter that has Fuel 0.2.0",
)
def test_fuel_itself_reads_the_file(tmp_path):
    write_fuel_file(tmp_path / "mine.hdf5", SPLITS, {})
    script = (
        "import sys\n"
        "from fuel.datasets.hdf5 import H5PYDataset\n"
        "from fuel.schemes import SequentialScheme\n"
        "from fuel.streams import DataStream\n"
        "for name in ('train', 'valid', 'test'):\n"
        "    data = H5PYDataset(sys.argv[1], which_sets=(name,))\n"
        "    scheme = SequentialScheme(data.num_examples, 7)\n"
        "    batches = [b for b, in DataStream(data, iteration_scheme=scheme)"
        ".get_epoch_iterator()]\n"
        "    print(name, data.num_examples, data.axis_labels['features'], "
        "sum(int(b.sum()) for b in batches))\n"
    )
    command = [os.environ["BIHM_FUEL_PYTHON"], "-c", script, str(tmp_path / "mine.hdf5")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{name} {len(rows)} ('batch', 'feature') {rows.sum()}" for name, rows in SPLITS.items()
    ]


def test_a_damaged_file_of_ours_never_reaches_the_hdf5_library(tmp_path, monkeypatch):
    path = tmp_path / "mine.hdf5"
    write_fuel_file(path, SPLITS, {"title": "x"})
    monkeypatch.setattr(hdf5, "_read_in_child", lambda *_: pytest.fail("a child was started"))
    assert read_fuel_file(path).attributes["title"] == "x"
    data = path.read_bytes()
    monkeypatch.setattr(h5py, "File", lambda *_: pytest.fail("the file was opened"))
    for place in (90, 520, 600, len(data) // 2, len(data) - 1):
        changed = 20 if place == 90 else place  # Byte 20 is a digit of the digest itself.
        path.write_bytes(data[:changed] + bytes([data[changed] ^ 1]) + data[changed + 1 :])
        with pytest.raises(InputError, match="mine.hdf5: not a readable data file .*is damaged"):
            read_fuel_file(path)


def table_of(file, bounds, source=b"features"):
    reference = h5py.special_dtype(ref=h5py.Reference)
    dtype = [("split", "S5"), ("source", "S8"), ("start", "i8"), ("stop", "i8")]
    dtype += [("indices", reference), ("available", "?"), ("comment", "S1")]
    rows = [
        (name, source, start, stop, file[indices].ref if indices else h5py.Reference(), True, b".")
        for name, start, stop, indices in bounds
    ]
    file.attrs["split"] = np.array(rows, dtype=dtype)


THIRDS = [(b"train", 0, 20, None), (b"valid", 20, 30, None), (b"test", 0, 10, None)]


def test_a_file_of_fuel_with_images_and_indices_is_read(tmp_path):
    images = RANDOM.integers(0, 2, size=(30, 1, 3, 4)).astype(np.uint8)
    order = RANDOM.permutation(30)
    with h5py.File(tmp_path / "mine.hdf5", "w") as file:
        file["features"], file["part"] = images, order[:10]
        table_of(file, [*THIRDS[:2], (b"test", 0, 10, "part")])
        file.attrs["note"], file.attrs["numbers"] = "from elsewhere", np.arange(3)
    assert read_fuel_file(tmp_path / "mine.hdf5").attributes == {
        "note": "from elsewhere",
        "numbers": [0, 1, 2],
    }
    data = load_dataset(tmp_path / "mine.hdf5")
    flat = images.reshape(30, 12)
    assert data.image_shape == (3, 4) and data.exactness == "own"
    assert (data.splits["train"] == flat[:20]).all() and (data.splits["valid"] == flat[20:]).all()
    assert (data.splits["test"] == flat[order[:10]]).all()


def external_link(file, folder):
    with h5py.File(folder / "other.hdf5", "w") as other:
        other["secret"] = np.ones((30, 9), np.uint8)
    file["features"] = h5py.ExternalLink("other.hdf5", "/secret")


def soft_link(file, folder):
    file["elsewhere"] = np.ones((30, 9), np.uint8)
    file["features"] = h5py.SoftLink("/elsewhere")


def external_storage(file, folder):
    (folder / "secret.bin").write_bytes(bytes(270))
    place = [(str(folder / "secret.bin"), 0, 270)]
    file.create_dataset("features", (30, 9), np.uint8, external=place)


def virtual(file, folder):
    layout = h5py.VirtualLayout((30, 9), np.uint8)
    with h5py.File(folder / "other.hdf5", "w") as other:
        layout[:] = h5py.VirtualSource(other.create_dataset("secret", (30, 9), np.uint8))
    file.create_virtual_dataset("features", layout)


def enormous(file, folder):
    file.create_dataset("features", (10**7, 10**5), np.uint8, chunks=(1000, 1000))


def text(file, folder):
    file["features"] = np.array([[b"secret"]] * 30)


def group(file, folder):
    file.create_group("features")


@pytest.mark.parametrize(
    "make, message",
    [
        (external_link, "link to another place"),
        (soft_link, "link to another place"),
        (external_storage, "are in other files"),
        (virtual, "are in other files"),
        (enormous, "would take 931.3 GiB"),
        (text, "plain numbers"),
        (group, "is not a data set"),
    ],
)
def test_values_that_are_elsewhere_or_too_large_are_not_read(tmp_path, make, message):
    with h5py.File(tmp_path / "mine.hdf5", "w") as file:
        make(file, tmp_path)
        table_of(file, THIRDS)
    with pytest.raises(InputError, match=message):
        read_fuel_file(tmp_path / "mine.hdf5")


@pytest.mark.parametrize("fate", ["crash", "hang", "memory"])
def test_a_file_that_breaks_the_library_is_refused(tmp_path, monkeypatch, fate):
    (tmp_path / "mine.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n")
    fates = {
        "crash": f"import os; os.kill(os.getpid(), {int(signal.SIGSEGV)})",
        "hang": "import time; time.sleep(60)",
        "memory": "from bihm_repro.datasets import child; child.limit_resources(); bytes(5 << 30)",
    }
    monkeypatch.setattr(child, "_CODE", "import sys; sys.path[:] = sys.argv[4:]; " + fates[fate])
    monkeypatch.setattr(child, "_SECONDS", 1 if fate == "hang" else 60)
    message = "more than 1 seconds" if fate == "hang" else "it crashed the library"
    with pytest.raises(InputError, match=f"mine.hdf5: .*{message}"):
        read_fuel_file(tmp_path / "mine.hdf5")


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


@pytest.mark.parametrize(
    "moment",
    ["first rows", "rows written", "file closed", "before the rename", "after the rename"],
)
def test_a_killed_conversion_leaves_the_old_file_or_the_new_one(tmp_path, moment):
    path = convert("bars", tmp_path).path
    old = path.stat().st_ino
    command = [sys.executable, "-c", KILLED, moment, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    assert (path.stat().st_ino == old) == (moment != "after the rename")
    load_dataset("bars", tmp_path)
    leftovers = list(tmp_path.glob(".bars.*"))
    assert len(leftovers) == (moment != "after the rename")
    convert("bars", tmp_path, fresh=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["bars.hdf5"]


def test_the_advice_for_a_file_without_a_split_works(tmp_path, bihm):
    with h5py.File("mine.hdf5", "w") as file:
        file["features"] = np.eye(30, 9, dtype=np.uint8)
        table_of(file, [THIRDS[0], THIRDS[2]])
    with pytest.raises(InputError, match="no split 'valid', only train, test") as caught:
        load_dataset("mine.hdf5")
    command = re.search(r"`bihm data (import [^`]+)`", str(caught.value))[1]
    status, _, errors = bihm(*command.split())
    assert status == 0, errors
    sizes = [len(rows) for rows in load_dataset("mine_split").splits.values()]
    assert sizes == [18, 2, 10]

"""The catalogue, the generated set, the file's layout, and loading."""

import math
import os
import shutil
import subprocess

import h5py
import numpy as np
import pytest

from bihm_repro.datasets import bars, load_dataset
from bihm_repro.datasets.catalogue import CATALOGUE, find_entry
from bihm_repro.datasets.convert import convert
from bihm_repro.datasets.fingerprints import fingerprint_of_rows, fingerprint_of_splits
from bihm_repro.datasets.hdf5 import write_fuel_file
from bihm_repro.errors import InputError

TITLES = {"binarized_mnist": (784, 50000, 10000, 10000), "mnist": (784, 50000, 10000, 10000),
          "adult": (123, 5000, 1414, 26147), "connect4": (126, 16000, 4000, 47557),
          "dna": (180, 1400, 600, 1186), "mushrooms": (112, 2000, 500, 5624),
          "nips": (500, 400, 100, 1240), "ocr_letters": (128, 32152, 10000, 10000),
          "rcv1": (150, 40000, 10000, 150000), "rcv1_surrogate": (150, 8000, 1000, 1000),
          "web": (300, 14000, 3188, 32561), "tfd": (2304, 98058, 418, 835),
          "bars": (16, 2000, 500, 500)}


def random_splits(dim=9, grey=False, seed=0):
    random = np.random.default_rng(seed)
    sizes = {"train": 30, "valid": 10, "test": 20}
    high = 256 if grey else 2
    return {name: random.integers(0, high, size=(count, dim)).astype(np.uint8)
            for name, count in sizes.items()}


def own_file(path, splits, grey=False, **more):
    attributes = {"name": path.stem, "exactness": "own", "source": "test", "converter_version": 1,
                  "grey": grey, "levels": 255 if grey else 1,
                  "fingerprint": fingerprint_of_splits(splits, binary=not grey), **more}
    write_fuel_file(path, splits, attributes)
    return path


@pytest.mark.parametrize("name", TITLES)
def test_the_catalogue_knows_the_published_sizes(name):
    entry = CATALOGUE[name]
    assert (entry.dim, *entry.sizes.values()) == TITLES[name]
    assert entry.citation and entry.title
    assert all(len(value) == 64 for value in entry.fingerprints.values())
    if entry.image_shape:
        assert math.prod(entry.image_shape) == entry.dim


def test_the_catalogue_has_no_other_names():
    assert set(CATALOGUE) == set(TITLES)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="did you mean connect4.*mushrooms.*bihm data import"):
        find_entry("connect-4")


def test_the_fingerprint_ignores_the_order_of_rows_and_nothing_else():
    rows = random_splits()["train"]
    shuffled = rows[np.random.default_rng(1).permutation(len(rows))]
    assert fingerprint_of_rows(rows) == fingerprint_of_rows(shuffled)
    assert fingerprint_of_rows(rows) == fingerprint_of_rows(rows.astype(np.float32))
    changed = rows.copy()
    changed[3, 4] ^= 1
    assert fingerprint_of_rows(rows) != fingerprint_of_rows(changed)
    assert fingerprint_of_rows(rows) != fingerprint_of_rows(rows[:-1])


def test_bars_have_the_entropy_that_is_claimed():
    every = (np.arange(2 ** 16)[:, None] >> np.arange(16) & 1).astype(np.uint8)
    log_p = bars.log_probability(every)
    p = np.exp(log_p)
    possible = p > 0
    assert possible.sum() == 30
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert -(p[possible] * log_p[possible]).sum() == pytest.approx(bars.ENTROPY, abs=1e-12)


def test_bars_are_draws_from_their_distribution():
    images = bars.draw_bars(32000, stream=99)
    patterns, counts = np.unique(images, axis=0, return_counts=True)
    assert len(patterns) == 30
    expected = 32000 * np.exp(bars.log_probability(patterns))
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 29 + 4 * math.sqrt(2 * 29)


def test_bars_load_without_a_file_and_are_pinned(tmp_path):
    data = load_dataset("bars", tmp_path)
    assert (data.dim, data.image_shape, data.exactness) == (16, (4, 4), "generated")
    assert data.entropy == bars.ENTROPY and not data.grey
    for name, rows in data.splits.items():
        assert fingerprint_of_rows(rows) == CATALOGUE["bars"].fingerprints[name]
    convert("bars", tmp_path)
    stored = load_dataset("bars", tmp_path)
    assert stored.fingerprint == data.fingerprint and stored.entropy == data.entropy


def read_as_fuel_documents_it(path):
    """An independent reader of Fuel's layout, from its documentation alone."""
    with h5py.File(path, "r") as file:
        table = file.attrs["split"]
        assert table.dtype.names == ("split", "source", "start", "stop", "indices", "available",
                                     "comment")
        assert table.dtype["split"].kind == table.dtype["source"].kind == "S"
        assert table.dtype["start"] == table.dtype["stop"] == np.int64
        assert h5py.check_dtype(ref=table.dtype["indices"]) is h5py.Reference
        result = {}
        for row in table:
            assert row["available"] and not row["indices"]
            source = row["source"].decode()
            labels = [dimension.label for dimension in file[source].dims]
            rows = file[source][row["start"]:row["stop"]]
            result[row["split"].decode()] = (source, labels, rows)
    return result


def test_the_file_has_fuels_layout(tmp_path):
    splits = random_splits()
    found = read_as_fuel_documents_it(own_file(tmp_path / "mine.hdf5", splits))
    assert list(found) == ["train", "valid", "test"]
    for name, (source, labels, rows) in found.items():
        assert source == "features" and labels == ["batch", "feature"]
        assert rows.dtype == np.uint8 and (rows == splits[name]).all()


@pytest.mark.skipif("BIHM_FUEL_PYTHON" not in os.environ,
                    reason="BIHM_FUEL_PYTHON names no interpreter that has Fuel 0.2.0")
def test_fuel_itself_reads_the_file(tmp_path):
    splits = random_splits()
    path = own_file(tmp_path / "mine.hdf5", splits)
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
        "sum(int(b.sum()) for b in batches))\n")
    done = subprocess.run([os.environ["BIHM_FUEL_PYTHON"], "-c", script, str(path)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{name} {len(rows)} ('batch', 'feature') {rows.sum()}" for name, rows in splits.items()]


def test_a_binary_set_loads_as_it_was_written(tmp_path):
    splits = random_splits()
    own_file(tmp_path / "mine.hdf5", splits, image_shape=[3, 3], citation="me", note="beware")
    for data in (load_dataset("mine", tmp_path), load_dataset(tmp_path / "mine.hdf5")):
        assert (data.name, data.dim, data.image_shape) == ("mine", 9, (3, 3))
        assert (data.exactness, data.citation, data.note) == ("own", "me", "beware")
        assert data.fingerprint == fingerprint_of_splits(splits) and not data.grey
        for name, rows in splits.items():
            assert data.splits[name].dtype == np.uint8 and (data.splits[name] == rows).all()


def test_a_grey_set_trains_on_probabilities_and_is_measured_on_one_fixed_draw(tmp_path):
    splits = random_splits(dim=400, grey=True)
    splits["valid"][:, :2] = [0, 255]
    own_file(tmp_path / "mine.hdf5", splits, grey=True)
    data, again = load_dataset("mine", tmp_path), load_dataset("mine", tmp_path)
    assert data.grey
    train = data.splits["train"]
    assert train.dtype == np.float32 and np.allclose(train * 255, splits["train"], atol=1e-4)
    for name in ("valid", "test"):
        drawn, p = data.splits[name], splits[name] / 255
        assert drawn.dtype == np.uint8 and set(np.unique(drawn)) == {0, 1}
        assert (drawn == again.splits[name]).all()
        error = math.sqrt((p * (1 - p)).mean() / p.size)
        assert abs(drawn.mean() - p.mean()) < 4 * error
    assert (data.splits["valid"][:, 0] == 0).all() and (data.splits["valid"][:, 1] == 1).all()


def test_a_missing_file_prints_the_command_that_makes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="`bihm data adult`"):
        load_dataset("adult")
    with pytest.raises(InputError, match="`bihm data adult --out elsewhere`"):
        load_dataset("adult", "elsewhere")
    with pytest.raises(InputError, match="bihm data import FILE --name mine"):
        load_dataset("mine")
    with pytest.raises(InputError, match="no such data file"):
        load_dataset("elsewhere/mine.hdf5")


def test_a_mislabelled_file_is_refused(tmp_path):
    convert("bars", tmp_path)
    shutil.copy(tmp_path / "bars.hdf5", tmp_path / "adult.hdf5")
    with pytest.raises(InputError, match="holds bars, not adult.*bihm data adult --fresh"):
        load_dataset("adult", tmp_path)


def test_a_file_of_fuel_under_a_catalogue_name_is_checked(tmp_path):
    write_fuel_file(tmp_path / "adult.hdf5", random_splits(dim=123), {})
    with pytest.raises(InputError, match="30 rows where 5000 are expected"):
        load_dataset("adult", tmp_path)


def test_a_file_of_fuel_with_images_and_indices_is_read(tmp_path):
    images = random_splits(dim=12)["train"].reshape(30, 1, 3, 4)
    order = np.random.default_rng(0).permutation(30)
    with h5py.File(tmp_path / "mine.hdf5", "w") as file:
        file["features"] = images
        file["part"] = order[:10]
        reference = h5py.special_dtype(ref=h5py.Reference)
        table = np.zeros(3, dtype=[("split", "S5"), ("source", "S8"), ("start", "i8"),
                                   ("stop", "i8"), ("indices", reference), ("available", "?"),
                                   ("comment", "S1")])
        for row, name, span in zip(table, (b"train", b"valid", b"test"),
                                   ((0, 20), (20, 30), (0, 10))):
            row["split"], row["source"], row["available"] = name, b"features", True
            row["start"], row["stop"] = span
            row["indices"] = file["part"].ref if name == b"test" else h5py.Reference()
        file.attrs["split"] = table
    data = load_dataset(tmp_path / "mine.hdf5")
    flat = images.reshape(30, 12)
    assert data.image_shape == (3, 4) and data.exactness == "own"
    assert (data.splits["train"] == flat[:20]).all() and (data.splits["valid"] == flat[20:]).all()
    assert (data.splits["test"] == flat[order[:10]]).all()


@pytest.mark.parametrize("damage", ["half", "text", "empty", "bare", "changed", "span", "value"])
def test_damaged_files_are_refused_in_one_line(tmp_path, damage):
    path = own_file(tmp_path / "mine.hdf5", random_splits(dim=200))
    if damage in ("half", "text", "empty"):
        data = path.read_bytes()
        path.write_bytes({"half": data[:len(data) // 2], "text": b"<html>", "empty": b""}[damage])
    else:
        with h5py.File(path, "r+") as file:
            if damage == "bare":
                del file.attrs["split"]
            elif damage == "changed":
                file["features"][5, 5] ^= 1
            elif damage == "value":
                file["features"][5, 5] = 7
            else:
                table = file.attrs["split"]
                table["stop"][2] = 10 ** 6
                file.attrs["split"] = table
    with pytest.raises(InputError) as caught:
        load_dataset("mine", tmp_path)
    assert "mine.hdf5" in str(caught.value) and "\n" not in str(caught.value)

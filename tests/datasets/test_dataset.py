"""The catalogue, the generated set, the file's layout, and loading."""

import math
import shutil

import h5py
import numpy as np
import pytest

from bihm_repro.datasets import bars, load_dataset
from bihm_repro.datasets.checks import fingerprint_of_rows, fingerprint_of_splits
from bihm_repro.datasets.convert import convert
from bihm_repro.datasets.hdf5 import write_fuel_file
from bihm_repro.datasets.registry import DATASETS, dataset_info
from bihm_repro.errors import InputError


def random_splits(dim=9, grey=False, seed=0):
    random = np.random.default_rng(seed)
    sizes = {"train": 30, "valid": 10, "test": 20}
    high = 256 if grey else 2
    return {
        name: random.integers(0, high, size=(count, dim)).astype(np.uint8)
        for name, count in sizes.items()
    }


def own_file(path, splits, grey=False, **more):
    attributes = {
        "name": path.stem,
        "exactness": "own",
        "source": "test",
        "converter_version": 1,
        "grey": grey,
        "levels": 255 if grey else 1,
        "fingerprint": fingerprint_of_splits(splits, binary=not grey),
        **more,
    }
    write_fuel_file(path, splits, attributes)
    return path


@pytest.mark.parametrize("info", DATASETS.values(), ids=lambda info: info.name)
def test_what_is_registered_is_consistent(info):
    assert list(info.sizes) == ["train", "valid", "test"] and info.citation and info.title
    assert all(len(value) == 64 for value in info.fingerprints.values())
    assert info.image_shape is None or math.prod(info.image_shape) == info.dim
    known = {split for name in info.fingerprints for split in name.split("+")}
    unverified = [split for split in info.sizes if split not in known]
    expected = {"rcv1": ["train", "test"], "tfd": ["train", "valid", "test"]}
    assert unverified == expected.get(info.name, [])
    assert not unverified or "unverified" in info.note


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="did you mean connect4.*mushrooms.*bihm data import"):
        dataset_info("connect-4")


def test_the_fingerprint_ignores_the_order_of_rows_and_nothing_else():
    rows = random_splits()["train"]
    shuffled = rows[np.random.default_rng(1).permutation(len(rows))]
    assert fingerprint_of_rows(rows) == fingerprint_of_rows(shuffled)
    assert fingerprint_of_rows(rows) == fingerprint_of_rows(rows.astype(np.float32))
    changed = rows.copy()
    changed[3, 4] ^= 1
    assert fingerprint_of_rows(rows) != fingerprint_of_rows(changed)
    assert fingerprint_of_rows(rows) != fingerprint_of_rows(rows[:-1])


def bars_log_probability(images):
    grid = np.asarray(images).reshape(-1, bars.SIDE, bars.SIDE)
    by_rows = (grid == grid[:, :, :1]).all(axis=(1, 2))
    by_columns = (grid == grid[:, :1, :]).all(axis=(1, 2))
    with np.errstate(divide="ignore"):
        return np.log((by_rows.astype(float) + by_columns) / 2.0 ** (bars.SIDE + 1))


def test_bars_have_the_entropy_that_is_claimed():
    every = (np.arange(2**16)[:, None] >> np.arange(16) & 1).astype(np.uint8)
    log_p = bars_log_probability(every)
    p = np.exp(log_p)
    possible = p > 0
    assert possible.sum() == 30
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert -(p[possible] * log_p[possible]).sum() == pytest.approx(bars.ENTROPY, abs=1e-12)


def test_bars_are_draws_from_their_distribution():
    images = bars.draw_bars(32000, stream=99)
    patterns, counts = np.unique(images, axis=0, return_counts=True)
    assert len(patterns) == 30
    expected = 32000 * np.exp(bars_log_probability(patterns))
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 29 + 4 * math.sqrt(2 * 29)


def test_bars_load_without_a_file_and_are_pinned(tmp_path):
    data = load_dataset("bars", tmp_path)
    assert (data.dim, data.image_shape, data.exactness) == (16, (4, 4), "generated")
    assert data.entropy == bars.ENTROPY and not data.grey
    for name, rows in data.splits.items():
        assert fingerprint_of_rows(rows) == DATASETS["bars"].fingerprints[name]
    convert("bars", tmp_path)
    stored = load_dataset("bars", tmp_path)
    assert stored.fingerprint == data.fingerprint and stored.entropy == data.entropy


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
    drawn, p = data.binary("train"), splits["train"] / 255
    assert set(np.unique(drawn)) == {0, 1} and (drawn == again.binary("train")).all()
    assert abs(drawn.mean() - p.mean()) < 4 * math.sqrt((p * (1 - p)).mean() / p.size)
    assert data.binary("valid") is data.splits["valid"]


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


def drop_split(file):
    del file.attrs["split"]


def change_row(file):
    file["features"][5, 5] ^= 1


def change_value(file):
    file["features"][5, 5] = 7


def move_bounds(file):
    table = file.attrs["split"]
    table["stop"][2] = 10**6
    file.attrs["split"] = table


def drop_name(file):
    del file.attrs["name"]


def change_levels(file):
    file.attrs["levels"] = "many"


@pytest.mark.parametrize(
    "change, message",
    [
        (drop_split, "Fuel's layout is missing"),
        (change_row, "its content has changed since it was written"),
        (change_value, "row 5, column 5 is 7"),
        (move_bounds, "split test spans 40 to 1000000 of 60 rows"),
        (drop_name, "its attribute name is missing"),
        (change_levels, "many"),
    ],
)
def test_changed_files_are_refused_in_one_line(tmp_path, change, message):
    path = own_file(tmp_path / "mine.hdf5", random_splits(dim=200))
    with h5py.File(path, "r+") as file:
        change(file)
    for expected in ("is damaged", message):
        with pytest.raises(InputError, match=f"mine.hdf5: .*{expected}") as caught:
            load_dataset("mine", tmp_path)
        assert "\n" not in str(caught.value)
        with open(path, "rb+") as handle:  # Without a digest, the other checks remain.
            handle.write(bytes(512))


@pytest.mark.parametrize("damage", ["half", "text", "empty"])
def test_damaged_files_are_refused_in_one_line(tmp_path, damage):
    path = own_file(tmp_path / "mine.hdf5", random_splits(dim=200))
    data = path.read_bytes()
    path.write_bytes({"half": data[: len(data) // 2], "text": b"<html>", "empty": b""}[damage])
    message = "mine.hdf5: .*make it again with `bihm data import FILE --name mine --fresh`"
    with pytest.raises(InputError, match=message) as caught:
        load_dataset("mine", tmp_path)
    assert "\n" not in str(caught.value)

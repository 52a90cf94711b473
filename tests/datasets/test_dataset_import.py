"""A user's own data: every format, the cut into splits, and what is refused."""

import re

import h5py
import numpy as np
import pytest

from bihm_repro.cli import main as cli
from bihm_repro.datasets import load_dataset
from bihm_repro.datasets.hdf5 import write_fuel_file
from bihm_repro.datasets.own import import_file

ROWS = np.random.default_rng(0).integers(0, 2, size=(50, 8)).astype(np.uint8)
PARTS = {"train": ROWS[:30], "valid": ROWS[30:40], "test": ROWS[40:]}


def save_csv(path, header=""):
    np.savetxt(path, ROWS, fmt="%d", delimiter=",", header=header, comments="")


SAVERS = {
    "one.npy": lambda path: np.save(path, ROWS),
    "float.npy": lambda path: np.save(path, ROWS.astype(np.float64)),
    "bool.npy": lambda path: np.save(path, ROWS.astype(bool)),
    "single.npz": lambda path: np.savez(path, anything=ROWS),
    "plain.csv": save_csv,
    "titled.csv": lambda path: save_csv(path, ",".join(f"column{i}" for i in range(8))),
    "splits.npz": lambda path: np.savez(path, **PARTS),
    "made.npz": lambda path: np.savez(path, **{f"{k}_data": v for k, v in PARTS.items()},
                                      inputsize=8),
    "fuel.hdf5": lambda path: write_fuel_file(path, PARTS, {}),
}


@pytest.fixture
def bihm(monkeypatch, capsys, tmp_path):
    """Run ``bihm data ...`` in an empty folder; returns status, output, errors."""
    monkeypatch.setattr(cli, "COMMANDS", ("data",))
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        status = cli.main(["data", *map(str, arguments)])
        return (status, *capsys.readouterr())
    return run


@pytest.mark.parametrize("name", SAVERS)
def test_every_format_is_imported(bihm, tmp_path, name):
    SAVERS[name](tmp_path / name)
    status, out, _ = bihm("import", name, "--name", "mine")
    assert status == 0 and out.startswith("mine")
    data = load_dataset("mine")
    sizes = {key: len(rows) for key, rows in data.splits.items()}
    given = name in ("splits.npz", "made.npz", "fuel.hdf5")
    assert sizes == ({"train": 30, "valid": 10, "test": 10} if given
                     else {"train": 40, "valid": 5, "test": 5})
    if given:
        assert all((data.splits[key] == PARTS[key]).all() for key in PARTS)
    else:
        together = np.concatenate(list(data.splits.values()))
        assert sorted(map(bytes, together)) == sorted(map(bytes, ROWS))
    assert data.exactness == "own" and data.source == name


def test_images_keep_their_shape(tmp_path):
    np.save(tmp_path / "x.npy", ROWS.reshape(50, 2, 4))
    _, data = import_file(tmp_path / "x.npy", "mine", tmp_path)
    assert data.image_shape == (2, 4) and data.dim == 8


def test_fractions_and_seed_decide_the_cut(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(50)[:, None] >> np.arange(6) & 1)
    cuts = [import_file(tmp_path / "x.npy", f"mine{i}", tmp_path, valid_fraction=0.2,
                        test_fraction=0.3, seed=seed)[1] for i, seed in enumerate((0, 0, 1))]
    assert [len(rows) for rows in cuts[0].splits.values()] == [25, 10, 15]
    assert cuts[0].fingerprint == cuts[1].fingerprint != cuts[2].fingerprint


def test_only_the_missing_split_is_cut(tmp_path):
    np.savez(tmp_path / "x.npz", train=ROWS[:40], test=ROWS[40:])
    _, data = import_file(tmp_path / "x.npz", "mine", tmp_path, valid_fraction=0.25)
    assert [len(rows) for rows in data.splits.values()] == [30, 10, 10]
    assert (data.splits["test"] == ROWS[40:]).all()


def test_grey_levels_are_kept_as_probabilities(tmp_path):
    grey = np.random.default_rng(0).random((50, 8))
    np.savez(tmp_path / "x.npz", train=grey, valid=grey, test=grey)
    _, data = import_file(tmp_path / "x.npz", "mine", tmp_path)
    assert data.grey and np.allclose(data.splits["train"], grey, atol=1e-7)
    assert set(np.unique(data.splits["test"])) == {0, 1}


BAD = {
    "value.npy": (lambda path: np.save(path, ROWS * 7), "column .* is 7"),
    "negative.npy": (lambda path: np.save(path, -ROWS.astype(float)), "is -1.0"),
    "missing.npy": (lambda path: np.save(path, np.full((4, 4), np.nan)), "is nan"),
    "text.npy": (lambda path: np.save(path, np.array([["a"]])), "must be numbers"),
    "objects.npy": (lambda path: np.save(path, np.array([{}], dtype=object)), "allow_pickle"),
    "vector.npy": (lambda path: np.save(path, np.zeros(5)), r"shape \(5,\)"),
    "empty.npy": (lambda path: np.save(path, np.zeros((0, 5))), r"shape \(0, 5\)"),
    "few.npy": (lambda path: np.save(path, ROWS[:2]), "leave none for training"),
    "truncated.npy": (lambda path: (np.save(path, ROWS), path.write_bytes(
        path.read_bytes()[:200])), "truncated.npy: not a readable"),
    "broken.npz": (lambda path: path.write_bytes(b"PK\x03\x04 nothing"), "not a readable"),
    "labels.npz": (lambda path: np.savez(path, x=ROWS, y=ROWS), "holds the arrays x, y"),
    "other.npz": (lambda path: np.savez(path, train=ROWS, validation=ROWS),
                  "the array validation is none of train, valid and test"),
    "uneven.npz": (lambda path: np.savez(path, train=ROWS, test=ROWS[:, :5]), "different"),
    "words.csv": (lambda path: path.write_text("a,b\n0,1\n0,yes\n"), "yes"),
    "gap.csv": (lambda path: path.write_text("1,,1\n" + "0,1,0\n" * 30), "not a readable"),
    "ragged.csv": (lambda path: path.write_text("0,1\n0\n"), "not a readable"),
    "nothing.csv": (lambda path: path.write_text(""), "nothing.csv: is empty"),
    "header.csv": (lambda path: path.write_text("a,b\n"), "no rows"),
    "nothing.npz": (lambda path: path.write_text(""), "nothing.npz: is empty"),
    "notes.txt": (lambda path: path.write_text("0 1"), r"allowed are \.npz"),
    "bare.hdf5": (lambda path: h5py.File(path, "w").close(), "Fuel's layout"),
    "text.hdf5": (lambda path: path.write_text("0 1"),
                  "not a readable data file.*bihm data import FILE --name text --fresh"),
    "absent.npy": (lambda path: None, "no such file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_with_one_line_and_leave_nothing(bihm, tmp_path, name):
    save, message = BAD[name]
    save(tmp_path / name)
    status, out, errors = bihm("import", name, "--name", "mine")
    assert status == 2 and out == ""
    assert errors.count("\n") == 1 and name in errors
    assert re.search(message, errors), errors
    assert not (tmp_path / "data").exists() or not list((tmp_path / "data").iterdir())


@pytest.mark.parametrize("arguments, message", [
    (("import", "x.npy"), "import takes one file and a name"),
    (("import", "x.npy", "--name", "adult"), "taken by the catalogue"),
    (("import", "x.npy", "--name", "../x"), "use letters"),
    (("import", "x.npy", "--name", "x", "--valid-fraction", "1.5"), "between 0 and 1"),
    (("import", "x.npy", "--name", "x", "--test-fraction", "0"), "between 0 and 1"),
    (("import", "x.npy", "--name", "x", "--seed", "-1"), "'-1': an integer of at least 0"),
    (("import", "x.npy", "--name", "x", "--seed", "9" * 20), "below 2**63"),
])
def test_bad_arguments_are_refused(bihm, tmp_path, arguments, message):
    np.save(tmp_path / "x.npy", ROWS)
    status, _, errors = bihm(*arguments)
    assert status == 2 and message in errors


def test_an_import_replaces_another_only_when_told(bihm, tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    assert bihm("import", "x.npy", "--name", "mine")[0] == 0
    status, _, errors = bihm("import", "x.npy", "--name", "mine", "--seed", "1")
    assert status == 2 and "--fresh" in errors
    assert bihm("import", "x.npy", "--name", "mine", "--seed", "1", "--fresh")[0] == 0
    assert "imported: mine" in bihm("list")[1]

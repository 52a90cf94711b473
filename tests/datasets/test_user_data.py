"""A user's own data: every format, what is guessed, the cut into splits, and what is refused."""

import gzip
import io
import lzma
import re
import shlex
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from bihm_repro.datasets import load_dataset
from bihm_repro.datasets.hdf5 import write_fuel_file
from bihm_repro.datasets.user_data import import_file

ROWS = np.random.default_rng(0).integers(0, 2, size=(50, 8)).astype(np.uint8)
PARTS = {"train": ROWS[:30], "valid": ROWS[30:40], "test": ROWS[40:]}
FRAME = pd.DataFrame(ROWS, columns=[f"f{i}" for i in range(8)])
LABELLED = FRAME.assign(kind=["edible", "poisonous"] * 25)


def table(separator=",", header="", ending="\n", rows=ROWS):
    text = io.StringIO()
    np.savetxt(text, rows, "%d", separator, header=header, comments="", newline=ending)
    return text.getvalue().encode()


def libsvm(first):
    lines = (" ".join(f"{i + first}:1" for i in np.flatnonzero(row)) for row in ROWS)
    return "".join(f"+1 {line}\n" for line in lines).encode()


NAMES = ",".join(FRAME.columns)
# File name: (how to write it, further arguments, what is said).
FORMATS = {
    "one.npy": (lambda path: np.save(path, ROWS), [], ["valid and test are rows of train"]),
    "float.npy": (lambda path: np.save(path, ROWS.astype(np.float64)), [], []),
    "bool.npy": (lambda path: np.save(path, ROWS.astype(bool)), [], []),
    "signs.npy": (lambda path: np.save(path, ROWS * 2.0 - 1), [], ["-1 is taken for 0"]),
    "pixels.npy": (lambda path: np.save(path, ROWS * np.uint8(255)), ["--scale"], []),
    "levels.npy": (lambda path: np.save(path, ROWS * 16), ["--scale", "16"], []),
    "edge.npy": (lambda path: np.save(path, ROWS), ["--threshold", "0"], []),
    "weights.npy": (lambda path: np.save(path, ROWS - 0.3), ["--threshold", "0"], []),
    "single.npz": (lambda path: np.savez(path, anything=ROWS), [], ["anything is train"]),
    "xy.npz": (lambda path: np.savez(path, X=ROWS, y=ROWS[:, 0]), [], ["X is train", "out: y"]),
    "sparse.npz": (lambda path: scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(ROWS)), [], []),
    "comma.csv": (lambda path: path.write_bytes(table()), [], ["separator is comma", "example"]),
    "named.csv": (lambda path: path.write_bytes(table(header=NAMES)), [], ["names of the col"]),
    "numbered.csv": (lambda path: path.write_bytes(table(header="0,1,2,3,4,5,6,7")), [], ["names"]),
    "semicolon.csv": (lambda path: path.write_bytes(table(";")), [], ["separator is semicolon"]),
    "pipe.txt": (lambda path: path.write_bytes(table("|")), ["--sep", "|"], []),
    "tab.tsv": (lambda path: path.write_bytes(table("\t")), [], ["separator is tab"]),
    "space.data": (lambda path: path.write_bytes(table("  ")), [], ["separator is white space"]),
    "windows.csv": (lambda path: path.write_bytes(b"\xef\xbb\xbf" + table(ending="\r\n")), [], []),
    "plain.csv.gz": (lambda path: path.write_bytes(gzip.compress(table())), [], []),
    "plain.tsv.xz": (lambda path: path.write_bytes(lzma.compress(table("\t"))), [], []),
    "index.csv": (lambda path: FRAME.to_csv(path), [], ["numbers of the rows: it is left out"]),
    "rownames.csv": (
        lambda path: path.write_text(NAMES + "\n" + FRAME.to_csv(header=False)),
        [],
        ["row names and left out"],
    ),
    "label.csv": (lambda path: LABELLED.to_csv(path, index=False), ["--label", "kind"], []),
    "drop.csv": (
        lambda path: LABELLED.assign(day=3).to_csv(path, index=False),
        ["--drop", "kind", "day"],
        [],
    ),
    "both.csv": (
        lambda path: LABELLED.assign(day=3).to_csv(path, index=False),
        ["--drop", "kind,day"],
        [],
    ),
    "last.csv": (
        lambda path: LABELLED.to_csv(path, index=False, header=False),
        ["--label", "8", "--header", "no"],
        [],
    ),
    "quoted.csv": (
        lambda path: LABELLED.to_csv(path, index=False, quoting=1),
        ["--label", "kind"],
        [],
    ),
    "bools.csv": (lambda path: FRAME.astype(bool).to_csv(path, index=False), [], ["names"]),
    "one.mat": (lambda path: scipy.io.savemat(path, {"file": ROWS}), [], ["file is train"]),
    "sparse.mat": (
        lambda path: scipy.io.savemat(path, {"X": scipy.sparse.csc_matrix(ROWS), "y": ROWS[:, :1]}),
        [],
        ["X is train", "left out: y"],
    ),
    "from1.libsvm": (lambda path: path.write_bytes(libsvm(1)), [], ["8 features, counted from 1"]),
    "from0.svm.gz": (
        lambda path: path.write_bytes(gzip.compress(libsvm(0))),
        [],
        ["8 features, counted from 0"],
    ),
    "table.parquet": (lambda path: LABELLED.to_parquet(path), ["--label", "kind"], []),
    "splits.npz": (lambda path: np.savez(path, **PARTS), [], []),
    "made.npz": (
        lambda path: np.savez(path, **{f"{k}_data": v for k, v in PARTS.items()}, inputsize=8),
        [],
        ["train_data is train", "left out: inputsize"],
    ),
    "keras.npz": (
        lambda path: np.savez(
            path,
            x_train=PARTS["train"],
            x_val=PARTS["valid"],
            x_test=PARTS["test"],
            y_train=np.zeros((30, 2)),
            y_test=np.zeros(10),
        ),
        [],
        ["x_train is train", "x_val is valid", "left out: y_train, y_test"],
    ),
    "splits.mat": (lambda path: scipy.io.savemat(path, PARTS), [], []),
    "fuel.hdf5": (lambda path: write_fuel_file(path, PARTS, {}), [], []),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_imported_and_what_is_guessed_is_said(bihm, tmp_path, name):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    save, arguments, said = FORMATS[name]
    save(tmp_path / name)
    status, out, errors = bihm("import", name, "--name", "mine", *arguments)
    assert status == 0 and out.startswith("mine"), errors
    assert all(part in errors for part in said), errors
    assert all(line.startswith("bihm: note: ") for line in errors.splitlines())
    data = load_dataset("mine")
    sizes = [len(data.splits[key]) for key in PARTS]
    if name.startswith(("splits", "made", "keras", "fuel")):
        assert sizes == [30, 10, 10]
        assert all((data.splits[key] == PARTS[key]).all() for key in PARTS)
    else:
        assert sizes == [40, 5, 5]
        together = np.concatenate(list(data.splits.values()))
        assert sorted(map(bytes, together)) == sorted(map(bytes, ROWS))
    assert (data.exactness, data.source, data.grey) == ("own", name, False)


def test_images_keep_their_shape(tmp_path):
    for axes in ((2, 4), (1, 2, 4), (2, 4, 1)):
        np.save(tmp_path / "x.npy", ROWS.reshape(50, *axes))
        _, data = import_file(tmp_path / "x.npy", "mine", tmp_path, fresh=True)
        assert data.image_shape == (2, 4) and data.dim == 8


def test_fractions_and_seed_decide_the_cut(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(50)[:, None] >> np.arange(6) & 1)
    cuts = [
        import_file(
            tmp_path / "x.npy",
            f"mine{i}",
            tmp_path,
            valid_fraction=0.2,
            test_fraction=0.3,
            seed=seed,
        )[1]
        for i, seed in enumerate((0, 0, 1))
    ]
    assert [len(rows) for rows in cuts[0].splits.values()] == [25, 10, 15]
    assert cuts[0].fingerprint == cuts[1].fingerprint != cuts[2].fingerprint


def test_only_the_missing_split_is_cut(tmp_path):
    np.savez(tmp_path / "x.npz", train=ROWS[:40], test=ROWS[40:])
    _, data = import_file(tmp_path / "x.npz", "mine", tmp_path, valid_fraction=0.25)
    assert [len(rows) for rows in data.splits.values()] == [30, 10, 10]
    assert (data.splits["test"] == ROWS[40:]).all()


@pytest.mark.parametrize("scale, dtype", [(1, np.float64), (255, np.uint8), (16, np.float64)])
def test_grey_levels_are_kept_as_probabilities(bihm, tmp_path, scale, dtype):
    grey = (np.random.default_rng(0).random((50, 8)) * scale).astype(dtype)
    np.savez(tmp_path / "x.npz", train=grey, valid=grey, test=grey)
    arguments = [] if scale == 1 else ["--scale", scale]
    assert bihm("import", "x.npz", "--name", "mine", *arguments)[0] == 0
    data = load_dataset("mine")
    assert data.grey and np.allclose(data.splits["train"], grey / scale, atol=1e-6)
    assert set(np.unique(data.splits["test"])) == {0, 1}


def damaged(save):
    def saved(path):
        save(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return saved


def v73(path):
    path.write_bytes(b"MATLAB 7.3 MAT-file, Platform: x" + bytes(500))


BAD = {
    "value.npy": (lambda path: np.save(path, ROWS * 7), r"value is 7.*--scale 7 .*--threshold 0"),
    "pixels.npy": (
        lambda path: np.save(path, ROWS * np.uint8(255)),
        "--scale 255 .*--threshold 127",
    ),
    "label.csv": (
        lambda path: FRAME.assign(**{"the kind": np.arange(50) % 3}).to_csv(path, index=False),
        "column the kind has values from 0 to 2, .*--drop 'the kind', or",
    ),
    "negative.npy": (lambda path: np.save(path, -ROWS.astype(float)), "is -1.0; .*--threshold 0"),
    "missing.npy": (lambda path: np.save(path, np.full((4, 4), np.nan)), "column 0 is nan"),
    "text.npy": (lambda path: np.save(path, np.array([["a"]])), "must be plain numbers"),
    "objects.npy": (lambda path: np.save(path, np.array([{}], dtype=object)), "plain numbers"),
    "vector.npy": (lambda path: np.save(path, np.zeros(5)), r"shape \(5,\)"),
    "empty.npy": (lambda path: np.save(path, np.zeros((0, 5))), r"shape \(0, 5\)"),
    "few.npy": (lambda path: np.save(path, ROWS[:2]), "leave none for training"),
    "truncated.npy": (damaged(lambda path: np.save(path, ROWS)), "truncated.npy: not a readable"),
    "broken.npz": (lambda path: path.write_bytes(b"PK\x03\x04 nothing"), "not a readable"),
    "unnamed.npz": (lambda path: np.savez(path, a=ROWS, b=ROWS), "holds the arrays a, b"),
    "other.npz": (lambda path: np.savez(path, train=ROWS, extra=ROWS), "array extra is none of"),
    "uneven.npz": (lambda path: np.savez(path, train=ROWS, test=ROWS[:, :5]), "different"),
    "words.csv": (
        lambda path: path.write_text("a,b,c d\n" + "0,1,x\n0,yes,y\n" * 9),
        "column b holds text such as 'yes'.*--drop b 'c d', or",
    ),
    "digits.parquet": (
        lambda path: pd.DataFrame({"a": ["1"], "b": [0]}).to_parquet(path),
        "column a holds text such as '1'",
    ),
    "gap.csv": (
        lambda path: path.write_text("1,,1\n" + "0,1,0\n" * 30),
        "column 1 has no value in row 0.*--drop 1",
    ),
    "ragged.csv": (lambda path: path.write_text("0,1\n0\n"), "column 1 has no value in row 1"),
    "long.csv": (lambda path: path.write_text("0,1\n0,1,1\n"), "not a readable csv"),
    "binary.csv": (lambda path: path.write_bytes(b"\xff\xfe\x00"), "not a readable csv"),
    "superscript.csv": (lambda path: path.write_text("0,1\n0,²\n" * 9), "holds text such as '²'"),
    "nothing.csv": (lambda path: path.write_text(""), "nothing.csv: is empty"),
    "header.csv": (lambda path: path.write_text("a,b\n"), "no rows"),
    "half.csv.gz": (damaged(lambda path: path.write_bytes(gzip.compress(table()))), "not a read"),
    "nothing.npz": (lambda path: path.write_text(""), "nothing.npz: is empty"),
    "notes.pdf": (lambda path: path.write_text("0 1"), r"allowed are \.csv"),
    "new.mat": (v73, "save it in MATLAB with the option '-v7'"),
    "half.mat": (damaged(lambda path: scipy.io.savemat(path, PARTS)), "not a readable"),
    "words.mat": (lambda path: scipy.io.savemat(path, {"X": "text"}), "holds the arrays none"),
    "dia.npz": (
        lambda path: scipy.sparse.save_npz(path, scipy.sparse.dia_matrix(ROWS)),
        "save matrix.tocsr",
    ),
    "outside.npz": (
        lambda path: np.savez(
            path, data=[1], indices=[99], indptr=[0, 1], shape=[1, 8], format=b"csr"
        ),
        "not a readable npz",
    ),
    "letters.libsvm": (lambda path: path.write_text("1 a:1\n"), "not a readable libsvm"),
    "wide.libsvm": (lambda path: path.write_text("1 99999999999:1\n"), "at most 2 GiB"),
    "half.parquet": (lambda path: path.write_bytes(b"PAR1 nothing"), "parquet"),
    "bare.hdf5": (lambda path: h5py.File(path, "w").close(), "Fuel's layout"),
    "text.hdf5": (lambda path: path.write_text("0 1"), "not a readable data file"),
    "absent.npy": (lambda path: None, "no such file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_with_one_line_and_leave_nothing(bihm, tmp_path, name):
    if name == "digits.parquet":
        pytest.importorskip("pyarrow")
    save, message = BAD[name]
    save(tmp_path / name)
    status, out, errors = bihm("import", name, "--name", "mine")
    *notes, last = errors.splitlines()
    assert status == 2 and out == "" and all(line.startswith("bihm: note:") for line in notes)
    assert name in last and re.search(message, last), errors
    assert not (tmp_path / "data").exists() or not list((tmp_path / "data").iterdir())


@pytest.mark.parametrize(
    "name", ["value.npy", "pixels.npy", "negative.npy", "words.csv", "gap.csv", "superscript.csv"]
)
def test_the_advice_of_an_error_works(bihm, tmp_path, name):
    BAD[name][0](tmp_path / name)
    errors = bihm("import", name, "--name", "mine")[2]
    advice = re.findall(r"--(?:scale|threshold|drop) [^,;]+?(?=,|;| to take|$)", errors.strip())
    assert advice
    for option in advice:
        status, _, errors = bihm("import", name, "--name", "mine", "--fresh", *shlex.split(option))
        assert status == 0, (option, errors)


def test_parquet_without_pyarrow_names_the_fix(bihm, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    status, _, errors = bihm("import", "x.parquet", "--name", "mine")
    assert status == 2 and "`pip install pyarrow`" in errors and errors.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("x.npy",), "import takes one file and a name"),
        (("x.npy", "--name", "adult"), "name of a registered data set"),
        (("x.npy", "--name", "../x"), "use letters"),
        (("x.npy", "--name", "x", "--valid-fraction", "1.5"), "between 0 and 1"),
        (("x.npy", "--name", "x", "--test-fraction", "0"), "between 0 and 1"),
        (("x.npy", "--name", "x", "--seed", "-1"), "'-1'"),
        (("x.npy", "--name", "x", "--seed", "9" * 20), "below 2**63"),
        (("x.npy", "--name", "x", "--drop", "0"), "tables with columns"),
        (("x.npy", "--name", "x", "--scale", "0"), "positive number"),
        (("x.npy", "--name", "x", "--scale", "0.5"), "from 0 to 1, not 0 to 0.5"),
        (("x.npy", "--name", "x", "--scale", "2", "--threshold", "1"), "exclude each other"),
        (("x.csv", "--name", "x", "--sep", "::"), "--sep '::': give one character"),
        (("x.csv", "--name", "x", "--drop", "z"), "--drop z: no such column; the columns are 0, 1"),
        (("x.csv", "--name", "x", "--label", "z"), "--label z: no such column"),
    ],
)
def test_bad_arguments_are_refused(bihm, tmp_path, arguments, message):
    np.save(tmp_path / "x.npy", ROWS)
    (tmp_path / "x.csv").write_bytes(table())
    status, _, errors = bihm("import", *arguments)
    assert status == 2 and message in errors


def test_an_import_replaces_another_only_with_fresh(bihm, tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    assert bihm("import", "x.npy", "--name", "mine")[0] == 0
    status, _, errors = bihm("import", "x.npy", "--name", "mine", "--seed", "1")
    assert status == 2 and "--fresh" in errors
    assert bihm("import", "x.npy", "--name", "mine", "--seed", "1", "--fresh")[0] == 0
    assert "imported: mine" in bihm("list")[1]

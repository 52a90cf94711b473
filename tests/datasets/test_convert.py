"""Conversion: sources in order, refusals, and the command's exit status."""

import dataclasses
import os
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import h5py
import numpy as np
import pytest

from bihm_repro.datasets import fetch, load_dataset
from bihm_repro.datasets.checks import fingerprint_of_rows
from bihm_repro.datasets.convert import convert
from bihm_repro.datasets.info import DatasetInfo, Source
from bihm_repro.datasets.registry import DATASETS

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
    """A small data set in the catalogue, with URLs that no machine has."""
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
    """Serve a folder over HTTP; returns the folder and its URL."""
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
def test_from_the_url_of_a_mirror(tiny, tmp_path, serve, save):
    folder, url = serve
    save(folder)
    convert("tiny", tmp_path / "data", mirror=url + "/")
    check(tmp_path / "data")


def test_from_files_put_into_place_by_hand(tiny, tmp_path):
    raw = tmp_path / "data" / "raw"
    raw.mkdir(parents=True)
    save_amat(raw)
    convert("tiny", tmp_path / "data")
    check(tmp_path / "data")


def test_public_urls_in_order_each_refusal_reported(tiny, monkeypatch, tmp_path, serve):
    folder, url = serve
    save_amat(folder)
    wrong = dict(SPLITS, test=1 - SPLITS["test"])
    save_npz(folder / "tiny.npz", wrong)
    sources = (
        Source("npz", {"all": f"{url}/absent.npz"}),
        Source("npz", {"all": f"{url}/tiny.npz"}),
        Source("amat", {name: f"{url}/tiny_{name}.amat" for name in SPLITS}),
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
        (("adult", "--mirror", "ftp://example.invalid/"), "neither a folder nor a URL"),
        (("adult", "--mirror", "http://[::1"), "neither a folder nor a URL"),
        (("adult", "--mirror", "http://host:8²/"), "neither a folder nor a URL"),
        (("bars", "--file", "setup.cfg"), "no such file"),
        (("adult", "--mirror", "nowhere"), "neither a folder nor a URL"),
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

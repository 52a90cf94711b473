"""Faces: the Toronto Face Database from the user's own file, and FER2013."""

import dataclasses

import numpy as np
import pytest
import scipy.io

from bihm_repro.datasets import load_dataset, sources
from bihm_repro.datasets.checks import fingerprint_of_rows
from bihm_repro.datasets.registry import DATASETS

RANDOM = np.random.default_rng(0)


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

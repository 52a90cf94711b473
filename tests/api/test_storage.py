"""Models in files, in run folders and in the package."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from bihm_repro import RWS, BiHM, load_model
from bihm_repro.api import pretrained_names, storage
from bihm_repro.errors import InputError


def assert_same(a, b):
    assert type(a) is type(b) and a.n_features_in_ == b.n_features_in_
    assert all(np.array_equal(a.parameters[name], b.parameters[name]) for name in a.parameters)
    assert list(a.history["valid_log_p"]) == pytest.approx(list(b.history["valid_log_p"]), 1e-12)
    assert a.settings == b.settings and a.layers == tuple(b.layers) and a.l1 == b.l1


def test_save_and_load(trained, tmp_path):
    model = trained[0]
    model.save(tmp_path / "mine")
    assert_same(model, BiHM.load(tmp_path / "mine.npz"))
    assert_same(model, load_model(tmp_path / "mine.npz"))
    with pytest.raises(InputError, match="holds a BiHM, not a RWS"):
        RWS.load(tmp_path / "mine.npz")
    with pytest.raises(InputError, match="not trained"):
        BiHM().save(tmp_path / "none")


def test_pickle_keeps_the_model_and_nothing_compiled(trained):
    model, _, data = trained
    model.score_samples(data[:3])
    again = pickle.loads(pickle.dumps(model))
    assert_same(model, again)
    assert again._symbolic is None and np.array_equal(again.sample(5), model.sample(5))
    assert pickle.loads(pickle.dumps(BiHM(layers=(3,)))).layers == (3,)


def test_models_are_found_by_path_and_by_name(trained, tmp_path, monkeypatch):
    model, folder, _ = trained
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "xor").symlink_to(folder)
    for given in ("xor", "results/xor", folder, folder / "model.npz"):
        assert_same(model, load_model(given))
    with pytest.raises(InputError, match=r"moshrooms.*did you mean 'mushrooms'"):
        load_model("moshrooms")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no recipe.toml"):
        load_model("./empty")


def test_a_file_of_parameters_alone_is_refused(trained, tmp_path):
    (tmp_path / "model.npz").write_bytes((trained[1] / "model.npz").read_bytes())
    with pytest.raises(InputError, match="does not say what model it holds"):
        load_model(tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("p0.W"), r"model.npz: model: the array p0.W is missing"),
        (lambda arrays: arrays.update({"p0.W": np.zeros((2, 2), np.float32)}), r"model.npz: .*p0"),
        (lambda arrays: arrays.update({"q0.W": np.zeros((3, 4))[:, :0]}), r"model.npz: .*q0.W"),
    ],
)
def test_a_damaged_model_is_named(trained, tmp_path, change, message):
    for name in ("recipe.toml", "model.npz"):
        (tmp_path / name).write_bytes((trained[1] / name).read_bytes())
    with np.load(tmp_path / "model.npz", allow_pickle=False) as stored:
        arrays = dict(stored)
    change(arrays)
    np.savez(tmp_path / "model.npz", **arrays)
    with pytest.raises(InputError, match=message):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["mnist", "mushrooms"])
def test_trained_models_come_with_the_package(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # away from results/
    assert name in pretrained_names()
    model = load_model(name)
    assert model.sample(2, gibbs_steps=1).shape == (2, model.n_features_in_)
    record = json.loads((storage.PRETRAINED / f"{name}.json").read_text(encoding="utf-8"))
    assert model.trained_ == record and record["updates"] > 1000
    assert record["evaluation"]["model_fingerprint"] == record["model_fingerprint"]
    assert (storage.PRETRAINED / f"{name}.npz").stat().st_size < 4e6


def test_loading_and_sampling_do_not_import_the_engine():
    code = (
        "import sys; from bihm_repro import load_model; load_model('mushrooms').sample(2); "
        "print(sorted({'theano', 'pytensor', 'jax', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("recipe", 3),
        ("recipe", "ab"),
        ("params", []),
        ("history", [1]),
        ("history", {"epoch": True}),
        ("feature_names", True),
        ("feature_names", "abc"),
    ],
)
def test_a_saved_model_with_a_wrong_record_is_refused(tmp_path, field, value):
    values = storage.read_parameters(storage.PRETRAINED / "mushrooms.npz")
    path = tmp_path / "mine.npz"
    storage.write_parameters(path, values, {**values.meta, field: value})
    with pytest.raises(InputError, match="mine.npz: (its meta is not that of|a recipe is a table)"):
        load_model(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data_dim": 150}, "its meta has data_dim = 150, its arrays have 112 observed units"),
        ({"layers": [100, 50]}, "its arrays have the latent layers .*, its recipe \\[100, 50\\]"),
        ({"feature_names": ["a", "b"]}, "its meta has 2 feature_names, its arrays have 112"),
    ],
)
def test_a_saved_model_whose_sizes_disagree_is_refused(tmp_path, change, said):
    values = storage.read_parameters(storage.PRETRAINED / "mushrooms.npz")
    assert values["p0.W"].shape == (150, 112)  # so 150 is the size of some array
    recipe = dict(values.meta["recipe"])
    recipe["model"] = {**recipe["model"], **{k: v for k, v in change.items() if k == "layers"}}
    path = tmp_path / "mine.npz"
    storage.write_parameters(path, values, {**values.meta, "recipe": recipe, **change})
    with pytest.raises(InputError, match=f"mine.npz: {said}"):
        load_model(path)

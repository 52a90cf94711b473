"""The Python face on a tiny model whose answers are known by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from exact import ExactModel, states

import bihm_repro
from bihm_repro import BiHM, load_model
from bihm_repro.errors import InputError
from bihm_repro.recipes.recipe import Phase

PHASES = (Phase(samples=5, learning_rate=0.05, patience=10, max_epochs=60),)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model trained on three-bit data where the last bit is the exclusive or of the others."""
    rng = np.random.default_rng(0)
    bits = (rng.random((600, 2)) < 0.5).astype(np.float32)
    data = np.column_stack([bits, bits[:, 0] != bits[:, 1]]).astype(np.float32)
    folder = tmp_path_factory.mktemp("runs") / "xor"
    model = BiHM(layers=[4, 2]).fit(data[:500], data[500:], phases=PHASES, l1=0.0, batch_size=20,
                                    out=folder)
    return model, folder, data


def test_fit_learns(trained):
    model, _, data = trained
    found = -model.log_likelihood(data, samples=100).log_p.mean()
    assert found < 3 * np.log(2) - 0.3      # what independent bits cost; the truth is 2 log 2
    exact = ExactModel(model.parameters)
    assert found == pytest.approx(-exact.log_p(data).mean(), abs=0.02)


def test_load_gives_the_same_model_and_estimates(trained):
    model, folder, data = trained
    again = load_model(folder)
    assert type(again) is BiHM
    for name, value in model.parameters.items():
        assert np.array_equal(value, again.parameters[name])
    a, b = (m.log_likelihood(data[:20], samples=10, seed=3) for m in (model, again))
    assert np.array_equal(a.log_p, b.log_p)


def test_estimates_meet_enumeration(trained):
    model, _, data = trained
    exact = ExactModel(model.parameters)
    z = model.estimate_log_z2(50_000)
    assert abs(z.value - exact.log_z2) < 4 * z.standard_error
    x = states(3)
    found = model.log_likelihood(x, samples=20_000, log_z2=exact.log_z2)
    assert found.log_p_star == pytest.approx(exact.log_p_star(x), abs=0.05)
    ess = model.effective_sample_size(x, samples=5000)
    assert ess.p_star == pytest.approx(exact.ess_limit(x), rel=0.1)


def test_samples_follow_p_and_p_star(trained):
    model, _, _ = trained
    exact = ExactModel(model.parameters)
    n = 20_000
    for steps, log_truth in ((0, exact.log_p()), (5, exact.log_p_star())):
        drawn = model.sample(n, gibbs_steps=steps, seed=1)
        assert drawn.shape == (n, 3) and set(np.unique(drawn)) <= {0.0, 1.0}
        counts = np.array([(drawn == row).all(axis=1).sum() for row in states(3)])
        expected = n * np.exp(log_truth)
        assert ((counts - expected) ** 2 / expected).sum() < 30   # 7 degrees of freedom


def test_inpaint_keeps_what_is_known(trained):
    model, _, data = trained
    mask = np.array([False, False, True])
    filled = model.inpaint(data[:50], mask, gibbs_steps=5)
    assert np.array_equal(filled[:, :2], data[:50, :2])
    assert set(np.unique(filled)) <= {0.0, 1.0}


def test_an_untrained_model_says_so():
    with pytest.raises(InputError, match="not trained: call fit"):
        BiHM(layers=[3]).log_likelihood(np.zeros((1, 2)))


@pytest.mark.parametrize("layers", [[], [0], [3, -1], [2.5]])
def test_bad_layers_are_refused(layers):
    with pytest.raises(InputError, match="layers"):
        BiHM(layers=layers)


@pytest.mark.parametrize(("settings", "message"), [
    ({"weights": "foo"}, "BiHM: model.weights = 'foo': must be one of"),
    ({"bias": "a"}, "BiHM: model.bias = 'a': must be a finite number"),
    ({"wieghts": "glorot"}, "model.wieghts: unknown setting.*weights"), ({"layers": 5}, "layers")])
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        BiHM(**{"layers": [3], **settings})


@pytest.mark.parametrize(("settings", "message"), [
    ({"l1": -1}, "fit: training.l1 = -1: must be"), ({"l1": "a"}, "fit: training.l1 = 'a'"),
    ({"moon": 1}, "training.moon: unknown setting"), ({"phases": []}, "one or more"),
    ({"phases": [Phase(samples=0)]}, "phases.0.samples = 0"), ({"seed": -1}, "seed = -1")])
def test_bad_training_is_refused(trained, settings, message):
    with pytest.raises(InputError, match=message):
        BiHM(layers=[2]).fit(trained[2], trained[2], **settings)


@pytest.mark.parametrize("settings", [{"gibbs_steps": -1}, {"gibbs_steps": 1.5}, {"seed": -1},
                                      {"n": 0}, {"n": "many"}])
def test_bad_counts_are_named(trained, settings):
    with pytest.raises(InputError, match=f"{next(iter(settings))} is "):
        trained[0].sample(**{"n": 2, **settings})


def test_what_is_hidden_may_be_nan(trained):
    model, _, data = trained
    mask, hidden = np.array([False, True, False]), data[:9].copy()
    hidden[:, 1] = np.nan
    filled = model.inpaint(hidden, mask, gibbs_steps=2)
    assert np.array_equal(filled, model.inpaint(data[:9], mask, gibbs_steps=2))
    with pytest.raises(InputError, match="x holds NaN in row 0"):
        model.inpaint(hidden, ~mask)


def test_bad_arrays_are_named(trained):
    model, _, data = trained
    with pytest.raises(InputError, match=r"mask has shape \(2,\)"):
        model.inpaint(data[:2], np.array([True, False]))
    with pytest.raises(InputError, match="valid has shape"):
        BiHM(layers=[2]).fit(data, data[:, :2])
    with pytest.raises(InputError, match="train holds 3 in row 0"):
        BiHM(layers=[2]).fit(data + 3, data)


def test_a_model_file_with_a_missing_array_is_named(trained, tmp_path):
    _, folder, _ = trained
    for name in ("recipe.toml", "model.npz"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with np.load(tmp_path / "model.npz", allow_pickle=False) as stored:
        arrays = dict(stored)
    arrays.pop("p0.W")
    np.savez(tmp_path / "model.npz", **arrays)
    with pytest.raises(InputError, match=r"model.npz: parameter p0.W is missing"):
        load_model(tmp_path)
    arrays["p0.W"] = np.zeros((2, 2), np.float32)
    np.savez(tmp_path / "model.npz", **arrays)
    with pytest.raises(InputError, match=r"p0.W has shape \(2, 2\), expected \(4, 3\)"):
        load_model(tmp_path)


def test_package_has_no_other_names():
    with pytest.raises(AttributeError, match="no attribute 'moon'"):
        bihm_repro.moon  # noqa: B018

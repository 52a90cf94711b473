"""The Python classes on a tiny model whose answers are known by enumeration."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from exact import ExactModel, states

import bihm_repro
from bihm_repro import RBM, VAE, BiHM, load_model
from bihm_repro.api import GreyLevelsWarning, class_of, fitting
from bihm_repro.datasets.streams import fixed_sample
from bihm_repro.errors import InputError
from bihm_repro.models import registry
from bihm_repro.ops.numerics import sigmoid
from bihm_repro.recipes.recipe import Phase
from bihm_repro.runs.layout import RunDirectory


def test_fit_learns(trained):
    model, _, data = trained
    found = -model.log_likelihood(data, samples=100).log_p.mean()
    assert found < 3 * np.log(2) - 0.3  # what independent bits cost; the truth is 2 log 2
    exact = ExactModel(model.parameters)
    assert found == pytest.approx(-exact.log_p(data).mean(), abs=0.02)


def test_score_is_the_mean_of_score_samples(trained):
    model, _, data = trained
    each = model.score_samples(data)
    assert each == pytest.approx(ExactModel(model.parameters).log_p(data), abs=0.2)
    assert model.score(data) == each.mean()


def test_load_gives_the_same_model_and_estimates(trained):
    model, folder, data = trained
    again = load_model(folder)
    assert type(again) is BiHM
    for name, value in model.parameters.items():
        assert np.array_equal(value, again.parameters[name])
    a, b = (m.log_likelihood(data[:20], samples=10, seed=3) for m in (model, again))
    assert np.array_equal(a.log_p, b.log_p)
    assert again.trained_["finished"] and len(again.history) == len(model.history)


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
        assert ((counts - expected) ** 2 / expected).sum() < 30  # 7 degrees of freedom


def test_a_seed_repeats_samples_and_none_draws_new_ones(trained):
    model = trained[0]
    assert np.array_equal(model.sample(50, seed=4), model.sample(50, seed=4))
    assert not np.array_equal(model.sample(50, seed=None), model.sample(50, seed=None))


def test_transform_gives_posterior_means(trained):
    model, _, _ = trained
    x, values = states(3).astype(np.float32), model.parameters
    first = sigmoid(x @ values["q0.W"] + values["q0.b"])
    assert model.transform(x) == pytest.approx(first, abs=1e-6)
    h1 = states(4).astype(np.float32)
    chance = np.prod(np.where(h1[None] == 1, first[:, None], 1 - first[:, None]), axis=2)
    second = chance @ sigmoid(h1 @ values["q1.W"] + values["q1.b"])
    found = model.set_params(eval_samples=4000).transform(x, layer=2)
    model.set_params(eval_samples=100)
    assert found == pytest.approx(second, abs=0.03)
    with pytest.raises(InputError, match="layer is 3: this model has the latent layers 1 to 2"):
        model.transform(x, layer=3)


def test_inpaint_keeps_what_is_known(trained):
    model, _, data = trained
    mask = np.array([False, False, True])
    for exact in (False, True):
        filled = model.inpaint(data[:50], mask, gibbs_steps=5, exact=exact)
        assert np.array_equal(filled[:, :2], data[:50, :2])
        assert set(np.unique(filled)) <= {0.0, 1.0}


def test_what_is_hidden_may_be_nan(trained):
    model, _, data = trained
    mask, hidden = np.array([False, True, False]), data[:9].copy()
    hidden[:, 1] = np.nan
    filled = model.inpaint(hidden, mask, gibbs_steps=2)
    assert np.array_equal(filled, model.inpaint(data[:9], mask, gibbs_steps=2))
    with pytest.raises(InputError, match="X holds NaN in row 0"):
        model.inpaint(hidden, ~mask)


def test_history_has_one_row_per_epoch(trained):
    model = trained[0]
    history = model.history
    assert list(history["epoch"]) == list(range(1, len(history) + 1))
    assert model.best_valid_ == history["valid_log_p"].max()
    assert f"{len(history)} epochs, validation log p {model.best_valid_:.2f}" in repr(model)


def test_a_finished_run_folder_is_used_again(trained, monkeypatch):
    model, folder, data = trained
    monkeypatch.setattr(fitting, "_run", None)
    same = BiHM(**model.get_params()).fit(data[:500], valid=data[500:], out=folder)
    assert np.array_equal(same.parameters["q0.W"], model.parameters["q0.W"])
    with pytest.raises(InputError, match="trained on other data"):
        BiHM(**model.get_params()).fit(data[:400], valid=data[500:], out=folder)
    with RunDirectory(folder).lock(), pytest.raises(InputError, match="is working on this run"):
        BiHM(**model.get_params()).fit(data[:500], valid=data[500:], out=folder)


def test_callbacks_see_rows_and_can_end_training(trained):
    rows = []

    def stop_at_three(row):
        rows.append(row)
        return row["epoch"] == 3

    again = BiHM(**{**trained[0].get_params(), "callbacks": [stop_at_three]}).fit(trained[2])
    assert [row["epoch"] for row in rows] == [1, 2, 3] == list(again.history["epoch"])


def test_an_interrupted_fit_keeps_the_best_so_far(trained):
    def interrupt(row):
        if row["epoch"] == 4:
            os.kill(os.getpid(), signal.SIGINT)

    model = BiHM(**{**trained[0].get_params(), "callbacks": [interrupt]})
    with pytest.raises(KeyboardInterrupt):
        model.fit(trained[2])
    assert len(model.history) in (4, 5)
    assert np.isfinite(model.score(trained[2]))


def captured(monkeypatch):
    """Replace training; return the list that receives its arguments."""
    calls = []

    def instead(recipe, rows, valid, fingerprint, callbacks, run, verbose):
        calls.append((recipe, rows, valid))
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "_run", instead)
    return calls


def fit_arguments(monkeypatch, model, *args, **options):
    calls = captured(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*args, **options)
    return calls[0]


def test_a_tenth_is_held_out(monkeypatch):
    x = (np.arange(200)[:, None] >> np.arange(8) & 1).astype(np.uint8)
    _, rows, valid = fit_arguments(monkeypatch, BiHM(), x)
    assert len(valid) == 20 and len(rows) == 180
    numbers = np.sort(np.concatenate([rows, valid]) @ (1 << np.arange(8)))
    assert np.array_equal(numbers, np.arange(200))
    _, _, other = fit_arguments(monkeypatch, BiHM(random_state=1), x)
    assert not np.array_equal(valid, other)


def test_labels_are_ignored_and_a_second_matrix_is_for_validation(monkeypatch):
    x = np.eye(20, 4)
    _, rows, _ = fit_arguments(monkeypatch, BiHM(), x, np.arange(20))
    assert len(rows) == 18
    for arguments, options in (((x, x[:7]), {}), ((x,), {"valid": x[:7]})):
        _, rows, valid = fit_arguments(monkeypatch, BiHM(), *arguments, **options)
        assert len(rows) == 20 and np.array_equal(valid, x[:7])


def test_grey_levels_are_treated_as_by_the_command_line(monkeypatch, trained):
    grey = np.random.default_rng(1).random((30, 3)).astype(np.float32)
    _, rows, valid = fit_arguments(monkeypatch, BiHM(), grey, valid=grey[:9])
    assert np.array_equal(rows, grey)  # binarized again in each epoch
    assert np.array_equal(valid, fixed_sample(grey[:9], 1, "valid"))
    model = trained[0]
    with pytest.warns(GreyLevelsWarning, match="one binary sample of them.*as in bihm evaluate"):
        found = model.score_samples(grey)
    assert np.array_equal(found, model.score_samples(fixed_sample(grey, 1, "test")))


def test_the_defaults_of_fit_suit_small_data(monkeypatch):
    recipe, _, _ = fit_arguments(monkeypatch, BiHM(), np.eye(500, 4))
    assert recipe.training.centred and recipe.model.weights == "glorot"
    assert [phase.learning_rate for phase in recipe.phases] == [1e-2, 3e-3]
    assert {phase.average_over for phase in recipe.phases} == {15 * 5}  # 450 rows: 5 updates


def test_random_state_decides_the_seed(monkeypatch):
    x = np.eye(20, 4)
    seeds = [
        fit_arguments(monkeypatch, BiHM(random_state=state), x)[0].seed
        for state in (7, None, None, np.random.RandomState(0), np.random.default_rng(0))
    ]
    assert seeds[0] == 7 and len(set(seeds)) == 5


def test_an_untrained_model_says_so():
    with pytest.raises(InputError, match="not trained: call fit"):
        BiHM(layers=[3]).log_likelihood(np.zeros((1, 2)))


@pytest.mark.parametrize("layers", [[], [0], [3, -1], [2.5], 5])
def test_bad_layers_are_refused(layers):
    with pytest.raises(InputError, match="layers"):
        BiHM(layers=layers).fit(np.eye(10, 3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": "foo"}, "BiHM: model.weights = 'foo': must be one of"),
        ({"bias": "a"}, "BiHM: model.bias = 'a': must be a finite number"),
        ({"l1": -1}, "BiHM: training.l1 = -1: must be"),
        ({"phases": []}, "one or more"),
        ({"phases": [Phase(samples=0)]}, "phases.0.samples = 0"),
        ({"learning_rate": 0}, "phases.0.learning_rate = 0"),
        ({"random_state": -1}, "random_state is -1"),
        ({"valid_fraction": 2}, "valid_fraction is 2"),
        ({"batch_size": "a"}, "training.batch_size = 'a'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        BiHM(**settings).fit(np.eye(10, 3))


@pytest.mark.parametrize(
    "settings", [{"gibbs_steps": -1}, {"gibbs_steps": 1.5}, {"seed": -1}, {"n": 0}, {"n": "many"}]
)
def test_bad_counts_are_named(trained, settings):
    with pytest.raises(InputError, match=f"{next(iter(settings))} is "):
        trained[0].sample(**{"n": 2, **settings})


def test_bad_arrays_are_named(trained):
    model, _, data = trained
    with pytest.raises(InputError, match=r"mask has shape \(2,\)"):
        model.inpaint(data[:2], np.array([True, False]))
    with pytest.raises(InputError, match=r"valid has shape \(600, 2\), X has 3 columns"):
        BiHM(layers=[2]).fit(data, valid=data[:, :2])
    with pytest.raises(InputError, match="X holds 3 in row 0.*set threshold"):
        BiHM(layers=[2]).fit(data + 3, data)
    with pytest.raises(InputError, match="X has 2 features, but BiHM is expecting 3"):
        model.transform(data[:, :2])


def test_each_kind_has_a_class_with_its_own_settings():
    for kind in registry.kinds():
        cls = class_of(kind)
        assert cls.kind == kind and getattr(bihm_repro, cls.__name__) is cls
        assert ("hidden" in cls().get_params()) == ("hidden" in registry.kind(kind).settings)
        assert ("inpaint" in dir(cls())) == registry.kind(kind).can(registry.Capability.INPAINTING)


@pytest.mark.slow
def test_a_vae_is_trained_sampled_and_transformed(xor):
    model = VAE(layers=(2,), hidden=(5,), max_epochs=3, batch_size=50, verbose=0).fit(xor)
    assert model.sample(7).shape == (7, 3) and model.transform(xor).shape == (600, 2)
    values = model.parameters
    hidden = np.maximum(xor @ values["q0.mlp.hidden0.W"] + values["q0.mlp.hidden0.b"], 0)
    means = hidden @ values["q0.mean.W"] + values["q0.mean.b"]
    assert model.transform(xor) == pytest.approx(means, abs=1e-5)
    with pytest.raises(InputError, match="has no inpainting"):
        model.inpaint(xor, np.array([True, False, False]))


@pytest.mark.slow
def test_a_kind_without_layers_is_trained_saved_scored_and_sampled(xor, tmp_path):
    model = RBM(layers=(3,), max_epochs=2, batch_size=50, verbose=0).fit(xor)
    model.save(tmp_path / "rbm.npz")
    again = load_model(tmp_path / "rbm.npz")
    assert again.n_features_in_ == 3 and again.score(xor[:5]) == model.score(xor[:5])
    assert again.sample(2).shape == (2, 3)
    with pytest.raises(InputError, match="has no inpainting"):
        again.inpaint(xor, np.array([True, False, False]))


def test_package_has_no_other_names():
    with pytest.raises(AttributeError, match="no attribute 'moon'"):
        bihm_repro.moon  # noqa: B018
    assert {"BiHM", "load_model"} <= set(dir(bihm_repro))

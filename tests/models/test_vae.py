"""The VAE against finite differences, quadrature and its own closed forms."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from exact import states
from gradient_checks import assert_gradients_are_slopes, compiled
from scipy import integrate, stats

from bihm_repro.engine.symbolic import T, function
from bihm_repro.errors import InputError
from bihm_repro.estimators.log_likelihood import estimate_log_likelihood
from bihm_repro.estimators.streaming import LogWeights
from bihm_repro.models.vae import VariationalAutoencoder
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.recipes.recipe import Phase, TrainingRecipe
from bihm_repro.samplers.gaussian import GaussianSampler
from bihm_repro.training.update import compile_update


def tiny(layers=(2,), seed=1, dtype="float64", **settings):
    """A model of three observed units with a few deterministic ones."""
    given = {"hidden": [4, 3], "activation": "tanh", "weights_scale": 0.7, **settings}
    model = VariationalAutoencoder(3, layers, dtype=dtype, **given).allocate()
    model.initialize(seed)
    values = model.get_values()
    shake = np.random.default_rng(seed)
    model.set_values({n: v + 0.3 * shake.standard_normal(v.shape) for n, v in values.items()})
    return model


@pytest.mark.parametrize("settings", [{}, {"hidden": []}, {"activation": "relu"}])
def test_gradients_are_the_slopes_of_the_bound(settings):
    """Descent gradients of the sum over the batch, noise held fixed, in float64."""
    model = tiny(**settings)
    assert_gradients_are_slopes(model, compiled(model, 2), states(3)[1:6], "bound")


def exact_log_p(model, x):
    """log p(x) of a model with one latent, by adaptive quadrature."""
    values = model.get_values()

    def density(h):
        features = np.array([h])
        for i in range(2):
            features = np.tanh(
                features @ values[f"p0.mlp.hidden{i}.W"] + values[f"p0.mlp.hidden{i}.b"]
            )
        logits = features @ values["p0.W"] + values["p0.b"]
        return stats.norm.pdf(h) * np.exp((x * logits - np.logaddexp(0, logits)).sum())

    return np.log(integrate.quad(density, -12, 12, epsabs=1e-12)[0])


def test_log_weights_meet_quadrature():
    """The mean of exp(log r) is p(x) for every x, within 4.5 standard errors; the sum is 1."""
    model = tiny(layers=(1,), dtype="float32")
    x = states(3)
    truth = np.array([exact_log_p(model, row) for row in x])
    assert np.exp(truth).sum() == pytest.approx(1.0, abs=1e-6)
    ratio = np.exp(LogWeights(model, 3)(x, 40_000, 0) - truth[:, None])
    error = ratio.std(axis=1, ddof=1) / np.sqrt(ratio.shape[1])
    assert np.all(error < 0.05)
    assert np.all(np.abs(ratio.mean(axis=1) - 1) < 4.5 * error)
    found = estimate_log_likelihood(model, x, (1, 5000), seed=1)
    assert found[5000].log_p == pytest.approx(truth, abs=0.1)
    assert found[1].log_p.mean() < truth.mean()


def test_analytic_bound_is_the_mean_of_the_sampled_one():
    """E log r over the noise equals reconstruction minus the closed form of the divergence."""
    model = tiny()
    x = states(3)[:4]
    found = compiled(model, 20_000)(x)
    symbol, counter = T.matrix("x", dtype="float64"), T.lscalar("counter")
    log_r, draws = model.log_weights(symbol, 20_000, 8, counter)
    assert draws == 1
    log_r = function([symbol, counter], log_r, mode="FAST_COMPILE")(x, 0)
    error = np.sqrt((log_r.var(axis=1, ddof=1) / log_r.shape[1]).sum())
    assert abs(log_r.mean(axis=1).sum() - found["bound"]) < 6 * error
    assert found["log_p"] > found["bound"]


def test_single_precision_gives_the_same_gradients():
    """The fused float32 Ops and the float64 reference agree on the same noise."""
    double, single = (tiny(dtype=kind, activation="relu") for kind in ("float64", "float32"))
    x = states(3)
    expected, found = compiled(double, 1)(x), compiled(single, 1)(x)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=2e-4), name


def test_updates_raise_the_likelihood():
    """300 updates on two vectors that exclude each other: both get almost half of p."""
    model = VariationalAutoencoder(4, [2], hidden=[20, 20]).allocate().initialize(0)
    assert model.get_values()["q0.mlp.hidden0.W"].std() == pytest.approx(0.1, rel=0.3)
    x = np.array([[1, 1, 0, 0], [0, 0, 1, 1]], np.float32)
    update = compile_update(
        model, TrainingRecipe(l1=0.0), Phase(samples=1, learning_rate=0.01), seed=1
    )
    first = update(np.tile(x, (20, 1)))["bound"] / 40
    for _ in range(299):
        last = update(np.tile(x, (20, 1)))["bound"] / 40
    log_p = estimate_log_likelihood(model, x, (1000,))[1000].log_p
    assert first < -2.5 and last > -1.6
    assert np.all(log_p > -1.0) and np.exp(log_p).sum() < 1.01


def test_sampler_in_numpy_draws_from_the_same_model():
    """The means of x over samples are the marginals that quadrature gives."""
    model = tiny(layers=(1,), seed=4, dtype="float32")
    sampler = GaussianSampler(model.get_values(), SimpleNamespace(activation="tanh"))
    means = sampler.sample_means(20_000, RandomStream(0, "test"))
    x = states(3)
    marginals = np.exp([exact_log_p(model, row) for row in x]) @ x
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    assert means.std(axis=0).min() > 0.01
    assert np.all(np.abs(means.mean(axis=0) - marginals) < 4.5 * error)


def test_one_layer_of_latents():
    """Two layers are an iwae's; the message says so."""
    with pytest.raises(InputError, match=r"\[3, 2\]: a vae model has a single layer"):
        VariationalAutoencoder(5, [3, 2])

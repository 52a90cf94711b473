"""The IWAE against finite differences, quadrature, and the VAE at K = 1."""

from __future__ import annotations

import numpy as np
import pytest
from exact import states
from gradient_checks import assert_gradients_are_slopes, compiled
from scipy import stats

from bihm_repro.engine.symbolic import T, function
from bihm_repro.errors import InputError
from bihm_repro.estimators.streaming import LogWeights
from bihm_repro.models.autoencoder import hidden_of_each
from bihm_repro.models.iwae import ImportanceWeightedAutoencoder
from bihm_repro.models.vae import VariationalAutoencoder
from bihm_repro.recipes.recipe import Phase, Recipe, find_recipe


def tiny(layers=(3, 2), hidden=((4,), (3,)), seed=2, dtype="float64"):
    """A model of three observed units."""
    model = ImportanceWeightedAutoencoder(
        3, layers, hidden=hidden, activation="tanh", weights_scale=0.6, dtype=dtype
    ).allocate()
    return model.initialize(seed)


@pytest.mark.parametrize(
    ("layers", "hidden"),
    [
        ((3, 2), ((4,), (3,))),
        ((2,), (4, 3)),
        ((2, 1), ()),
    ],
)
def test_gradients_are_the_slopes_of_the_bound(layers, hidden):
    """The bound itself is differentiated: weights held constant give its exact gradient."""
    model = tiny(layers, hidden)
    assert_gradients_are_slopes(model, compiled(model, 4), states(3)[2:6], "log_p")


def test_one_sample_is_the_sampled_bound_of_the_vae():
    """With the same parameters and noise, K = 1 gives the VAE's log p(x|h) + log p(h) - log q."""
    iwae = tiny((2,), (4, 3))
    vae = VariationalAutoencoder(
        3, [2], hidden=[4, 3], activation="tanh", dtype="float64"
    ).allocate()
    vae.set_values(iwae.get_values())
    x = states(3)
    run_iwae, run_vae = compiled(iwae, 1), compiled(vae, 1)
    sampled, with_closed_form = run_iwae(x), run_vae(x)
    assert sampled["log_p"] == pytest.approx(with_closed_form["log_p"], abs=1e-12)
    # p sees the divergence through the samples only, so its gradients are the VAE's digit by digit;
    # q's agree on average over the noise.
    for name in vae.get_values():
        if name.startswith("p"):
            assert sampled[name] == pytest.approx(with_closed_form[name], abs=1e-12)
    many = np.tile(x, (200, 1))
    difference = np.array(
        [run_iwae(many, i)["q0.mean.W"] - run_vae(many, i)["q0.mean.W"] for i in range(30)]
    )
    error = difference.std(axis=0, ddof=1) / np.sqrt(30)
    assert np.all(np.abs(difference.mean(axis=0)) < 4.5 * error + 1e-9)


def test_more_samples_tighten_the_bound():
    """The expected bound rises with K for the same parameters."""
    model = tiny(dtype="float32")
    x = np.tile(states(3), (300, 1))
    log_r = LogWeights(model, 0)(x, 64, 0)
    means = [
        np.logaddexp.reduce(log_r.reshape(len(x), -1, k), axis=2).mean() - np.log(k)
        for k in (1, 8, 64)
    ]
    assert means[0] < means[1] < means[2]


def test_two_layers_meet_quadrature():
    """With one latent in each of two layers, exp(log r) has the mean p(x) for every x."""
    model = tiny((1, 1), ((3,), (2,)), dtype="float32")
    values = {name: value.astype(float) for name, value in model.get_values().items()}

    def affine(name, features):
        return features @ values[f"{name}.W"] + values[f"{name}.b"]

    x = states(3)
    h1 = np.linspace(-12, 12, 4001)[:, None]
    logits = affine("p0", np.tanh(affine("p0.mlp.hidden0", h1)))
    log_x = logits @ x.T - np.logaddexp(0, logits).sum(axis=1)[:, None]
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    above = np.tanh(affine("p1.mlp.hidden0", points[:, None]))
    mean, scale = affine("p1.mean", above), np.exp(affine("p1.log_variance", above) / 2)
    prior = weights / np.sqrt(2 * np.pi) @ stats.norm.pdf(h1.T, mean, scale)
    truth = prior @ np.exp(log_x) * (h1[1] - h1[0])
    assert truth.sum() == pytest.approx(1.0, abs=1e-6)
    ratio = np.exp(LogWeights(model, 3)(x, 40_000, 0)) / truth[:, None]
    error = ratio.std(axis=1, ddof=1) / np.sqrt(ratio.shape[1])
    assert np.all(error < 0.1)
    assert np.all(np.abs(ratio.mean(axis=1) - 1) < 4.5 * error)


def test_noise_differs_between_layers_and_calls():
    """As many draws as layers, so that no noise is used twice."""
    model = tiny((2, 2), ((3,), (3,)))
    x, counter = T.matrix("x", dtype="float64"), T.lscalar("counter")
    graph = model.training_graph(x, 5, 0, counter)
    assert graph.counters == 2 and list(graph.monitors) == ["log_p"]
    first, second = (d.sample for d in model.infer(x, 5, 0, counter))
    found = function([x, counter], [first, second], mode="FAST_COMPILE")
    a, b = found(states(3), 0), found(states(3), 2)
    assert a[0].shape == a[1].shape == (40, 2)
    assert not np.isclose(a[0], b[0]).any()


def test_hidden_sizes_for_all_or_for_each():
    """One list serves all layers; a wrong number of lists is refused."""
    assert hidden_of_each((5, 4), 2) == [[5, 4], [5, 4]]
    assert hidden_of_each(((5,), (4, 3)), 2) == [[5], [4, 3]]
    assert hidden_of_each((), 2) == [[], []]
    with pytest.raises(InputError, match="has 3 lists.*each of the 2"):
        hidden_of_each(((5,), (4,), (3,)), 2)
    names = tiny((3, 2), ((5, 4), (3,))).get_values()
    assert names["q0.mlp.hidden0.W"].shape == (3, 5) and names["p0.mlp.hidden0.W"].shape == (3, 4)
    assert names["p1.mean.W"].shape == (3, 3) and names["p0.W"].shape == (5, 3)


def test_the_published_schedule():
    """Eight rates 1e-3 * 10^(-i/7), held for 3^i epochs each; batches of 20 and K = 5."""
    recipe = Recipe.load(find_recipe("iwae/mnist-paper"))
    phase: Phase = recipe.phases[0]
    assert [epochs for _, epochs in phase.learning_rates] == [3**i for i in range(8)]
    assert [rate for rate, _ in phase.learning_rates] == pytest.approx(
        [1e-3 * 10 ** (-i / 7) for i in range(8)], rel=1e-3
    )
    assert phase.last_epoch == 3280 and phase.samples == 5 and recipe.training.batch_size == 20

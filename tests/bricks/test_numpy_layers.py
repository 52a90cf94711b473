"""Layers in numpy: equal to the symbolic ones, and samplers that rely on the interface alone."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from exact import random_parameters, states
from scipy import stats

from bihm_repro.bricks import registry
from bihm_repro.bricks.layer import Layer, Prior
from bihm_repro.bricks.numpy_layer import NumpyBernoulli, NumpyLayer
from bihm_repro.bricks.plugins import resolve
from bihm_repro.errors import InputError
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine
from bihm_repro.ops.numerics import sigmoid
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers.gibbs import GibbsSettings, gibbs_chain, start_chain
from bihm_repro.samplers.helmholtz import HelmholtzSampler
from bihm_repro.samplers.inpainting import inpainting_chain

SIZES = (3, 2, 2)
CHAIN = SimpleNamespace(p_layer=("chain", "bernoulli"), q_layer="chain", prior="bernoulli")


@pytest.fixture
def chain(monkeypatch):
    """The layer type of ``toy_layer``, for this test only."""
    monkeypatch.setattr(registry, "_types", dict(registry._types))
    import toy_layer

    registry.register("chain", toy_layer.ChainLayer, toy_layer.NumpyChain)
    return toy_layer


def chain_parameters(seed=0):
    values = random_parameters(SIZES, seed)
    noise = np.random.default_rng(seed)
    for name in ("p0", "q0", "q1"):
        values[f"{name}.c"] = noise.normal(size=values[f"{name}.b"].shape)
    return values


def plain_log_prob(values, logits, coupling):
    """The chain's log-probabilities of rows, unit by unit."""
    total = np.zeros(len(values))
    for j in range(values.shape[1]):
        logit = logits[:, j] + (coupling[j] * values[:, j - 1] if j else 0)
        total += values[:, j] * logit - np.logaddexp(0, logit)
    return total


@pytest.fixture
def enumerated(chain):
    """A sampler with chains, all states, and log p(x, h), log q(h|x) by plain loops."""
    a = chain_parameters()
    rows = states(sum(SIZES))
    x, h1, h2 = np.split(rows, [3, 5], axis=1)
    zero = np.zeros(2)
    log_p = (
        plain_log_prob(x, h1 @ a["p0.W"] + a["p0.b"], a["p0.c"])
        + plain_log_prob(h1, h2 @ a["p1.W"] + a["p1.b"], zero)
        + plain_log_prob(h2, np.tile(a["p2.b"], (len(rows), 1)), zero)
    )
    log_q = plain_log_prob(h1, x @ a["q0.W"] + a["q0.b"], a["q0.c"]) + plain_log_prob(
        h2, h1 @ a["q1.W"] + a["q1.b"], a["q1.c"]
    )
    return HelmholtzSampler(a, CHAIN), rows, log_p, log_q


def p_value(layers, target):
    rows = np.concatenate(layers, axis=1)
    counts = np.bincount(
        (rows @ 2 ** np.arange(rows.shape[1])[::-1]).astype(int), minlength=2 ** rows.shape[1]
    )
    expected = target * len(rows)
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    return stats.chisquare(counts[keep], expected[keep]).pvalue


def p_star(log_p, log_q):
    """p*(x, h) of all states: sqrt(p(x, h) q(h|x)) S(x) / Z^2, states in counting order of x."""
    root = np.exp(0.5 * (log_p + log_q)).reshape(8, 16)
    joint = root * root.sum(axis=1, keepdims=True)
    return (joint / joint.sum()).ravel()


def test_log_probabilities_of_dependent_units(enumerated):
    model, rows, log_p, log_q = enumerated
    layers = [part.astype(np.float32) for part in np.split(rows, [3, 5], axis=1)]
    np.testing.assert_allclose(model.log_joint(layers), log_p, rtol=2e-5)
    np.testing.assert_allclose(model.log_q(layers), log_q, rtol=2e-5, atol=1e-6)


def test_ancestral_samples_and_gibbs_sampling_with_dependent_units(enumerated):
    model, _, log_p, log_q = enumerated
    random = RandomStream(0, "test")
    assert p_value(model.sample_p(20_000, random), np.exp(log_p)) > 0.01
    target = p_star(log_p, log_q)
    state = start_chain(model, model.sample_p(8_000, random), random)
    assert p_value(state.layers, target) < 1e-6
    for _state in gibbs_chain(model, state, 20, random, GibbsSettings(3, 2, keep_current=True)):
        state = _state
    assert p_value(state.layers, target) > 0.01


def test_inpainting_with_dependent_units_follows_p_star_given_the_known_ones(enumerated):
    model, rows, log_p, log_q = enumerated
    known = np.array([False, True, False])
    x = np.tile(np.array([[0, 1, 0]], np.float32), (8_000, 1))
    settings = GibbsSettings(3, 2, keep_current=True)
    *_, last = inpainting_chain(model, x, known, 20, RandomStream(0, "test"), settings)
    target = np.where(rows[:, 1] == 1, p_star(log_p, log_q), 0)
    assert np.all(last.x[:, 1] == 1)
    assert p_value(last.layers, target / target.sum()) > 0.01


@pytest.mark.parametrize("sizes", [(4, 3), (5, 4, 3)])
def test_symbolic_and_numpy_layers_agree(sizes):
    """Every value of a model in the one form goes into the other, deterministic layers too."""
    from bihm_repro.engine.symbolic import T, function

    settings = {"hidden": [6], "activation": "tanh"}
    model = (
        BidirectionalHelmholtzMachine(
            sizes[0], sizes[1:], weights="glorot", bias=0.3, layer_settings=settings
        )
        .allocate()
        .initialize(1)
    )
    sampler = HelmholtzSampler(model.get_values(), SimpleNamespace(activation="tanh"))
    rows = states(sum(sizes)).astype(np.float32)
    layers = np.split(rows, np.cumsum(sizes[:-1]), axis=1)
    symbols = [T.matrix() for _ in layers]
    run = function(
        symbols,
        [
            model.joint(symbols[0], symbols[1:]).log_p,
            model.inference_score(symbols[0], symbols[1:]).log_q,
        ],
        mode="FAST_COMPILE",
    )
    log_p, log_q = run(*layers)
    np.testing.assert_allclose(sampler.log_joint(layers), log_p, rtol=1e-4)
    np.testing.assert_allclose(sampler.log_q(layers), log_q, rtol=1e-4)


def test_samples_follow_the_probabilities_and_keep_given_units():
    arrays = {"p0.W": np.array([[2.0, -1.0]]), "p0.b": np.array([0.0, 0.5])}
    layer = NumpyBernoulli("p0", arrays)
    given = layer.given(np.ones((3, 1), np.float32))
    drawn = given.sample(RandomStream(0, "test"), (4000,))
    assert drawn.shape == (3, 4000, 2)
    expected = sigmoid(np.array([2.0, -0.5]))
    assert np.abs(drawn.mean(axis=(0, 1)) - expected).max() < 4 * 0.5 / np.sqrt(12_000)
    assert np.allclose(given.probabilities(drawn[:, 0]), expected)
    units, values = np.array([True, False]), np.array([0.0, 0.25])
    kept = given.sample(RandomStream(0, "test"), (5,), units, values)
    assert np.all(kept[..., 1] == 0.25) and set(np.unique(kept[..., 0])) <= {0, 1}
    both = given.log_prob(drawn[:, 0], units) + given.log_prob(drawn[:, 0], ~units)
    np.testing.assert_allclose(both, given.log_prob(drawn[:, 0]), rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q0.W": None}, "the array q0.W is missing"),
        ({"p1.b": np.zeros((2, 2))}, r"p1.b has shape \(2, 2\), expected 1 axes"),
        ({"p0.W": np.zeros((5, 3))}, "layer p0 has 5 inputs and 3 units, expected 2 and 3"),
        ({"q1.W": np.full((2, 2), np.nan)}, "q1.W has values that are not finite"),
        ({"q0.b": np.zeros(7)}, r"q0.W and q0.b have shapes \(3, 2\) and \(7,\)"),
    ],
)
def test_wrong_arrays_are_named(change, message):
    values = {**random_parameters(SIZES, 0), **change}
    with pytest.raises(InputError, match=message):
        HelmholtzSampler({name: value for name, value in values.items() if value is not None})


def test_the_registry_names_what_is_allowed():
    with pytest.raises(InputError, match="'moon': allowed are bernoulli"):
        registry.layer_type("moon")
    with pytest.raises(InputError, match="has 3 names: give one name for all levels"):
        registry.names_by_level(["bernoulli"] * 3, 2)
    kinds = registry.layer_type("bernoulli", prior=True)
    assert issubclass(resolve(kinds.conditional), Layer)
    assert issubclass(resolve(kinds.prior), Prior)
    assert issubclass(resolve(kinds.numpy_prior), NumpyLayer)

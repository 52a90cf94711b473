"""The samplers against enumeration: chi-square on all configurations of tiny models."""

from __future__ import annotations

import numpy as np
import pytest
from exact import ExactModel, random_parameters
from scipy import stats

from bihm_repro.errors import InputError
from bihm_repro.ops.numerics import sigmoid, softplus
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers import gibbs
from bihm_repro.samplers.gibbs import (
    GibbsSettings,
    gibbs_chain,
    gibbs_step,
    resample_towards_p_star,
    start_chain,
)
from bihm_repro.samplers.helmholtz import HelmholtzSampler

SIZES = [[3, 2], [3, 2, 2], [2, 2, 1, 2]]


def p_value(layers, log_target):
    """The chi-square p-value of rows of 0/1 layers against log-probabilities of all states."""
    rows = np.concatenate([np.asarray(layer) for layer in layers], axis=1)
    numbers = (rows @ 2 ** np.arange(rows.shape[1])[::-1]).astype(int)
    counts = np.bincount(numbers, minlength=2 ** rows.shape[1])
    expected = np.exp(log_target).ravel() * len(rows)
    # States too rare for the chi-square limit are counted together.
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] == 0:
        counts, expected = counts[:-1], expected[:-1]
    return stats.chisquare(counts, expected).pvalue


def tiny(sizes, seed=1):
    model = ExactModel(random_parameters(sizes, seed))
    return model, HelmholtzSampler(model.parameters)


def run(pair, chains, steps, settings, seed=0):
    random = RandomStream(seed, "test")
    chain = start_chain(pair, pair.sample_p(chains, random), random)
    for state in gibbs_chain(pair, chain, steps, random, settings):
        chain = state
    return chain.layers


def test_softplus_and_sigmoid_at_extremes():
    logits = np.array([-200, -50, -1, 0, 1, 50, 200], np.float32)
    exact = np.logaddexp(0, logits.astype(float))
    np.testing.assert_allclose(softplus(logits), exact, atol=2e-7, rtol=1e-6)
    np.testing.assert_allclose(sigmoid(logits), np.exp(logits - exact), rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("sizes", SIZES)
def test_log_probabilities_equal_enumeration(sizes):
    model, pair = tiny(sizes)
    x = np.repeat(model.all_x, len(model.all_h), axis=0)
    h = np.tile(model.all_h, (len(model.all_x), 1))
    layers = [a.astype(np.float32) for a in [x, *np.split(h, np.cumsum(sizes[1:-1]), axis=1)]]
    np.testing.assert_allclose(pair.log_joint(layers), model.log_joint().ravel(), rtol=2e-5)
    np.testing.assert_allclose(pair.log_q(layers), model.log_q().ravel(), rtol=2e-5)
    above = pair.log_q(layers, start=2)
    first = pair.q_given(1, layers[0]).log_prob(layers[1])
    np.testing.assert_allclose(above + first, model.log_q().ravel(), rtol=2e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_ancestral_samples_follow_p_and_q(sizes):
    model, pair = tiny(sizes)
    random = RandomStream(0, "test")
    assert p_value(pair.sample_p(20_000, random), model.log_joint()) > 0.01
    assert p_value(pair.sample_p(20_000, random), model.log_p_star_joint()) < 1e-6
    x = np.repeat(model.all_x[1:2], 20_000, axis=0)
    latent = pair.sample_q(x, random)[1:]
    assert p_value(latent, model.log_q(model.all_x[1:2])) > 0.01


def test_log_weights_have_the_expectations_of_the_estimators():
    model, pair = tiny([3, 2, 2])
    weights = pair.log_weights(model.all_x.astype(np.float32), 40_000, RandomStream(0, "test"))
    for power, exact in ((1.0, model.log_p()), (0.5, 0.5 * model.log_p_tilde_star())):
        terms = np.exp(power * weights.astype(float))
        error = terms.std(axis=1) / np.sqrt(terms.shape[1])
        assert np.all(np.abs(terms.mean(axis=1) - np.exp(exact)) < 4 * error)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    "settings, steps",
    [(GibbsSettings(1, 1, keep_current=True), 40), (GibbsSettings(3, 2, keep_current=True), 20)],
)
def test_keeping_the_current_state_leaves_p_star_invariant(sizes, settings, steps):
    model, pair = tiny(sizes)
    layers = run(pair, chains=8_000, steps=steps, settings=settings)
    assert p_value(layers, model.log_p_star_joint()) > 0.01


@pytest.mark.parametrize("sizes", [[3, 2], [3, 2, 2]])
def test_plain_resampling_needs_many_proposals(sizes):
    """The paper's version is exact in the limit: far off with 2 proposals, right with 40."""
    model, pair = tiny(sizes)
    target = model.log_p_star_joint()
    many = run(pair, 2_000, 8, GibbsSettings(40, 10, keep_current=False))
    assert p_value(many, target) > 0.01
    few = run(pair, 8_000, 10, GibbsSettings(2, 2, keep_current=False))
    assert p_value(few, target) < 1e-6


@pytest.mark.parametrize("keep_current", [True, False])
def test_a_sampler_without_weights_fails(monkeypatch, keep_current):
    def choose_evenly(log_weights, random):
        return random.integers(log_weights.shape[1], len(log_weights))

    model, pair = tiny([3, 2, 2])
    monkeypatch.setattr(gibbs, "_choose", choose_evenly)
    layers = run(pair, 4_000, 20, GibbsSettings(3, 2, keep_current=keep_current))
    assert p_value(layers, model.log_p_star_joint()) < 1e-6


def test_without_the_estimate_of_q_of_x_the_marginal_is_the_root_of_p_star(monkeypatch):
    model, pair = tiny([3, 2])
    monkeypatch.setattr(
        gibbs, "log_mean_exp", lambda values: np.zeros(values.shape[:-1], np.float32)
    )
    x = run(pair, 8_000, 20, GibbsSettings(3, 1, keep_current=True))[:1]
    root = 0.5 * model.log_p_star()
    assert p_value(x, model.log_p_star()) < 1e-6
    assert p_value(x, root - np.log(np.exp(root).sum())) > 0.01


def test_resampling_complete_samples_reaches_p_star(monkeypatch):
    monkeypatch.setattr(gibbs, "BLOCK", 1_000_000)  # 666 at a time, the rest last
    model, pair = tiny([3, 2, 2])
    layers = resample_towards_p_star(pair, 3_000, 100, RandomStream(0, "test"), inner=5)
    assert p_value(layers, model.log_p_star_joint()) > 0.01
    layers = resample_towards_p_star(pair, 3_000, 1, RandomStream(0, "test"))
    assert p_value(layers, model.log_p_star_joint()) < 1e-6


def test_a_step_is_a_function_of_state_and_seed():
    _, pair = tiny([3, 2, 2])
    random = RandomStream(0, "test")
    chain = start_chain(pair, pair.sample_p(50, random), random)
    before = [layer.copy() for layer in chain.layers]
    one, two, other = (gibbs_step(pair, chain, RandomStream(s, "test")) for s in (5, 5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(before, chain.layers))
    assert all(np.array_equal(a, b) for a, b in zip(one.layers, two.layers))
    assert any(not np.array_equal(a, b) for a, b in zip(one.layers, other.layers))
    assert all(set(np.unique(layer)) <= {0, 1} for layer in one.layers)


def test_extreme_weights_give_finite_states():
    pair = HelmholtzSampler(random_parameters([4, 3, 2], seed=0, scale=200))
    layers = run(pair, 50, 5, GibbsSettings(3, 2, keep_current=True))
    assert all(set(np.unique(layer)) <= {0, 1} for layer in layers)


def test_counts_below_one_are_refused():
    with pytest.raises(InputError, match="proposals: 0"):
        GibbsSettings(proposals=0)
    with pytest.raises(InputError, match="inner: -1"):
        GibbsSettings(inner=-1)
    with pytest.raises(InputError, match="oversample 0"):
        resample_towards_p_star(tiny([3, 2])[1], 1, 0, RandomStream(0, "test"))


def test_odd_layers_come_before_even_ones_and_x_is_last(monkeypatch):
    _, pair = tiny([2, 2, 1, 2, 1])
    order = []
    latent, visible = gibbs._draw_latent, gibbs._draw_x
    monkeypatch.setattr(gibbs, "_draw_latent", lambda *a: order.append(a[2]) or latent(*a))
    monkeypatch.setattr(gibbs, "_draw_x", lambda *a: order.append(0) or visible(*a))
    run(pair, 3, 2, GibbsSettings(2, 1))
    assert order == [1, 3, 2, 4, 0] * 2


def test_the_papers_procedure_is_the_default_and_moves_in_every_step():
    """Fresh proposals only: with one proposal, the state is the proposal."""
    assert not GibbsSettings().keep_current
    _, pair = tiny([6, 5, 4])
    random = RandomStream(0, "test")
    chain = start_chain(pair, pair.sample_p(200, random), random)
    moved = {}
    for keep in (False, True):
        after = gibbs_step(pair, chain, RandomStream(1, "test"), GibbsSettings(1, 1, keep))
        moved[keep] = np.mean(np.any(after.layers[1] != chain.layers[1], axis=1))
    assert moved[False] > moved[True] + 0.1

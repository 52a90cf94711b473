"""BiHM and RWS with DARN and NADE layers: normalisation, estimates, training, Gibbs, inpainting."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from exact import log_sum_exp, states

from bihm_repro.engine.symbolic import T, function
from bihm_repro.models.build import build_model
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.recipes.recipe import Phase, Recipe, TrainingRecipe
from bihm_repro.samplers.gibbs import GibbsSettings, gibbs_chain, start_chain
from bihm_repro.samplers.helmholtz import HelmholtzSampler
from bihm_repro.samplers.inpainting import inpainting_chain
from bihm_repro.training.update import compile_update

SIZES = (3, 2, 2)
LAYERS = {
    "darn at the data and on top": {"p_layer": ["darn", "bernoulli"], "prior": "darn"},
    "nade in p, darn in q": {"p_layer": "nade", "q_layer": "darn", "prior": "nade"},
}


def machine(layers, kind="bihm", dtype="float64"):
    recipe = {
        "kind": kind,
        "layers": list(SIZES[1:]),
        "nade_hidden": 3,
        "weights": "gaussian",
        "weights_scale": 1.0,
        "bias": 0.2,
        **LAYERS[layers],
    }
    settings = Recipe.from_dict({"dataset": "bars", "model": recipe}).model
    return build_model(settings, SIZES[0], seed=2, dtype=dtype), settings


def all_states():
    """x, h_1, h_2 of all configurations, (128, size) each; x changes slowest."""
    return np.split(states(sum(SIZES)), np.cumsum(SIZES)[:-1], axis=1)


def exact(model, settings):
    """log p(x, h) and log q(h|x), (x, h), from the numpy layers, which are tested on their own."""
    sampler = HelmholtzSampler(model.get_values(), settings)
    layers = [layer.astype(np.float32) for layer in all_states()]
    joint, log_q = sampler.log_joint(layers), sampler.log_q(layers)
    return sampler, joint.reshape(8, -1).astype(float), log_q.reshape(8, -1).astype(float)


@pytest.mark.parametrize("layers", LAYERS)
def test_both_directions_are_normalised_and_equal_to_the_samplers(layers):
    model, settings = machine(layers)
    x, *h = [T.matrix(dtype="float64") for _ in SIZES]
    run = function(
        [x, *h], [model.joint(x, h).log_p, model.inference_score(x, h).log_q], mode="FAST_COMPILE"
    )
    log_p, log_q = (v.reshape(8, -1) for v in run(*all_states()))
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-10)
    assert np.exp(log_q).sum(axis=1) == pytest.approx(np.ones(8), abs=1e-10)
    _, of_p, of_q = exact(model, settings)
    assert of_p == pytest.approx(log_p, abs=1e-5) and of_q == pytest.approx(log_q, abs=1e-5)


@pytest.mark.parametrize("layers", LAYERS)
def test_estimates_of_log_p_and_2_log_z_come_to_the_exact_ones(layers):
    model, settings = machine(layers)
    _, joint, log_q = exact(model, settings)
    x, rows, counter = T.matrix(dtype="float64"), T.lscalar(), T.lscalar()
    log_r, _ = model.log_weights(x, 4000, 1, counter)
    outer, inner, _ = model.log_z_terms(rows, 1, 2, counter)
    found, terms = function(
        [x, rows, counter], [log_r, outer + inner[:, 0] / 2], mode="FAST_COMPILE"
    )(states(3), 20000, 0)
    weights = np.exp(found - log_sum_exp(joint, axis=1)[:, None])
    errors = weights.std(axis=1, ddof=1) / np.sqrt(4000)
    assert np.abs((weights.mean(axis=1) - 1) / errors).max() < 4.5
    log_z2 = log_sum_exp(2 * log_sum_exp((joint + log_q) / 2, axis=1))
    ratio = np.exp(terms - log_z2)
    assert abs(ratio.mean() - 1) < 4.5 * ratio.std(ddof=1) / np.sqrt(len(ratio))
    assert log_z2 < -0.01


def test_updates_raise_log_p_and_leave_the_triangle():
    """300 centred updates on four vectors; log 1/4 is the largest mean of log p."""
    model, settings = machine("darn at the data and on top", dtype="float32")
    x = np.array([[1, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0]], np.float32)
    before = log_sum_exp(exact(model, settings)[1], axis=1)
    update = compile_update(
        model,
        TrainingRecipe(l1=1e-3, centred=True),
        Phase(samples=10, learning_rate=0.03, average_over=50),
        seed=1,
    )
    for _ in range(300):
        update(np.tile(x, (10, 1)))
    _, joint, log_q = exact(model, settings)
    at = (x @ [4, 2, 1]).astype(int)
    assert before[at].mean() < -2 and log_sum_exp(joint, axis=1)[at].mean() > -1.55
    assert not np.tril(model.get_values()["p0.W"][SIZES[1] :]).any()
    assert not np.tril(model.get_values()["p2.W"]).any()


@pytest.mark.parametrize("layers", LAYERS)
def test_gibbs_sampling_and_inpainting_have_p_star_as_their_limit(layers):
    """Frequencies of x of 6000 chains, in standard errors; inpainting given the first value."""
    sampler, joint, log_q = exact(*machine(layers))
    log_tilde = 2 * log_sum_exp((joint + log_q) / 2, axis=1)
    p_star = np.exp(log_tilde - log_sum_exp(log_tilde))
    count, random = 6000, RandomStream(0, "test")
    settings = GibbsSettings(proposals=5, inner=2, keep_current=True)
    *_, chain = gibbs_chain(
        sampler, start_chain(sampler, sampler.sample_p(count, random), random), 15, random, settings
    )
    assert_frequencies(chain.x, p_star, count)
    x, known = np.tile(np.float32([[1, 0, 0]]), (count, 1)), np.array([True, False, False])
    *_, chain = inpainting_chain(sampler, x, known, 15, random, settings)
    assert (chain.x[:, 0] == 1).all()
    assert_frequencies(chain.x, np.where(np.arange(8) >= 4, p_star, 0) / p_star[4:].sum(), count)


def assert_frequencies(x, p, count):
    found = np.bincount((x @ [4, 2, 1]).astype(int), minlength=8) / count
    assert (found[p == 0] == 0).all()
    error = np.sqrt(p * (1 - p) / count)[p > 0]
    assert np.abs((found - p)[p > 0] / error).max() < 4.5


@pytest.mark.parametrize("sleep", [0.0, 1.0, 0.25])
def test_the_sleep_term_of_a_bihm_is_added_to_the_gradient_of_q(sleep):
    """With one sample the control variate removes q's own gradient; what is left is exact."""
    model, settings = machine("darn at the data and on top")
    _, joint, _ = exact(model, settings)
    x, counter = T.matrix(dtype="float64"), T.lscalar()
    graph = model.training_graph(x, 1, 3, counter, sleep=sleep)
    assert graph.counters == (2 if sleep == 0 else 5)
    run = function([x, counter], graph.gradients[model.q[0].W], mode="FAST_COMPILE")
    rows = np.tile(states(3), (50, 1))
    found = np.array([run(rows, 5 * call) for call in range(40)])
    if not sleep:
        assert not found.any()
        return
    values = model.get_values()
    layers = all_states()
    mean = 1 / (1 + np.exp(-(layers[0] @ values["q0.W"] + values["q0.b"])))
    score = np.einsum("s,si,sj->ij", np.exp(joint).reshape(-1), layers[0], layers[1] - mean)
    errors = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert np.abs((found.mean(axis=0) + sleep * len(rows) * score) / errors).max() < 4.5
    assert np.abs(score).max() > 0.02


def test_every_combination_of_layer_types_can_be_built():
    for p, q, prior in itertools.product(["bernoulli", "darn", "nade"], repeat=3):
        recipe = {"kind": "rws", "layers": [2], "p_layer": p, "q_layer": q, "prior": prior}
        settings = Recipe.from_dict({"dataset": "bars", "model": recipe}).model
        model = build_model(settings, 3)
        sampler = HelmholtzSampler(model.get_values(), settings)
        assert sampler.sizes == [3, 2]
        assert [v.shape for v in sampler.sample_p(4, RandomStream(0, "test"))] == [(4, 3), (4, 2)]

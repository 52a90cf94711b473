"""The paper's identities, the analytic gradient and extreme logits, on enumerable models."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from exact import ExactModel, layer_sizes, random_parameters, states

from bihm_repro.errors import InputError

SIZES = [[4, 3], [3, 3, 2], [5, 2, 2, 1], [3, 2, 2, 2, 2], [1, 1], [6, 4, 2]]


@pytest.fixture(params=list(enumerate(SIZES)), ids=lambda item: "-".join(map(str, item[1])))
def model(request):
    seed, sizes = request.param
    return ExactModel(random_parameters(sizes, seed, scale=1.5))


def plain_log_bernoulli(value, logit):
    probability = 1 / (1 + np.exp(-logit))
    return np.log(probability if value else 1 - probability)


def plain_log_joint_and_q(parameters, layers):
    """log p(x, h) and log q(h|x) of one configuration, unit by unit, for small logits."""
    depth = len(layers) - 1
    top = parameters[f"p{depth}.b"]
    log_p = sum(plain_log_bernoulli(v, a) for v, a in zip(layers[-1], top))
    log_q = 0.0
    for level in range(depth):
        lower, upper = layers[level], layers[level + 1]
        for i, value in enumerate(lower):
            weights = parameters[f"p{level}.W"][:, i]
            logit = parameters[f"p{level}.b"][i] + sum(w * v for w, v in zip(weights, upper))
            log_p += plain_log_bernoulli(value, logit)
        for j, value in enumerate(upper):
            weights = parameters[f"q{level}.W"][:, j]
            logit = parameters[f"q{level}.b"][j] + sum(w * v for w, v in zip(weights, lower))
            log_q += plain_log_bernoulli(value, logit)
    return log_p, log_q


def markov_twin():
    """One unit a layer: any p has an exact inverse, and these q arrays are it."""
    p = random_parameters([1, 1, 1], seed=3)
    table = np.exp(ExactModel(p).log_joint()).reshape(2, 2, 2)  # x, h1, h2
    for level, joint in enumerate([table.sum(axis=2), table.sum(axis=0)]):
        logits = np.log(joint[:, 1] / joint[:, 0])
        p[f"q{level}.b"] = logits[:1]
        p[f"q{level}.W"] = (logits[1:] - logits[:1]).reshape(1, 1)
    return p


def factorised_twin():
    """No weights and the same biases on both sides: p and q are one factorised distribution."""
    p = random_parameters([3, 3, 2], seed=4)
    p = {name: np.zeros_like(a) if name.endswith("W") else a for name, a in p.items()}
    p["q0.b"], p["q1.b"] = p["p1.b"], p["p2.b"]
    return p


def test_states_counts_every_vector_once():
    assert len({tuple(row) for row in states(5)}) == 32
    assert np.array_equal(states(3)[5], [1, 0, 1])


def test_joint_and_q_equal_a_loop_over_units():
    parameters = random_parameters([3, 2, 2], seed=9)
    model = ExactModel(parameters)
    for i, x in enumerate(itertools.product([0, 1], repeat=3)):
        for j, h in enumerate(itertools.product([0, 1], repeat=4)):
            expected = plain_log_joint_and_q(parameters, [x, h[:2], h[2:]])
            got = model.log_joint()[i, j], model.log_q()[i, j]
            np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_everything_that_is_a_distribution_sums_to_one(model):
    for log_joint in (model.log_joint(), model.log_q_joint(), model.log_p_star_joint()):
        assert np.exp(log_joint).sum() == pytest.approx(1, abs=1e-12)
    for conditional in (model.log_q(), model.log_posterior(), model.log_posterior_star()):
        np.testing.assert_allclose(np.exp(conditional).sum(axis=1), 1, rtol=1e-12)
    assert np.exp(model.log_p_star()).sum() == pytest.approx(1, abs=1e-12)
    assert np.exp(model.log_p()).sum() == pytest.approx(1, abs=1e-12)


def test_q_of_x_is_the_marginal_of_p_star(model):
    """The recursive definition: q(x), used inside p*(x, h), is what p*(x, h) sums to."""
    marginal = np.exp(model.log_p_star_joint()).sum(axis=1)
    np.testing.assert_allclose(marginal, np.exp(model.log_p_star()), rtol=1e-11)
    np.testing.assert_allclose(marginal, np.exp(model.log_q_joint()).sum(axis=1), rtol=1e-11)


def test_z_is_the_overlap_of_p_and_q_and_below_one(model):
    z = np.sqrt(np.exp(model.log_joint()) * np.exp(model.log_q_joint())).sum()
    assert np.log(z) == pytest.approx(0.5 * model.log_z2, abs=1e-12)
    assert z < 1 - 1e-4
    assert model.bhattacharyya_distance == pytest.approx(-np.log(z))


@pytest.mark.parametrize("twin", [markov_twin, factorised_twin])
def test_z_is_one_exactly_where_p_equals_q(twin):
    parameters = twin()
    model = ExactModel(parameters)
    np.testing.assert_allclose(model.log_joint(), model.log_q_joint(), atol=1e-12)
    assert model.log_z2 == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(model.log_p_star(), model.log_p(), atol=1e-12)
    parameters["q0.b"] = parameters["q0.b"] + 0.1
    assert ExactModel(parameters).log_z2 < -1e-5


def test_the_bound_is_the_likelihood_minus_twice_the_bhattacharyya_distance(model):
    overlap = np.sqrt(np.exp(model.log_joint() + model.log_q_joint())).sum()
    right = model.log_p_star() - 2 * -np.log(overlap)
    np.testing.assert_allclose(model.log_p_tilde_star(), right, atol=1e-11)


def test_p_is_at_least_p_tilde_star_and_above_the_variational_bound(model):
    assert np.all(model.log_p() >= model.log_p_tilde_star() - 1e-12)
    assert np.all(model.log_p_tilde_star() >= model.expected_log_weight() - 1e-12)
    assert np.any(model.log_p() > model.log_p_tilde_star() + 1e-3)


def test_z2_equals_its_expectation_under_p_and_q(model):
    """Equation 7, both expectations written out as sums."""
    outer = np.exp(model.log_joint()) * np.exp(-0.5 * model.log_weights())
    inner = np.exp(model.log_q()) * np.exp(0.5 * model.log_weights())
    total = np.sum(outer.sum(axis=1) * inner.sum(axis=1))
    assert np.log(total) == pytest.approx(model.log_z2, abs=1e-11)


def test_gradient_equals_finite_differences(model):
    generator = np.random.default_rng(0)
    grey = generator.random((3, model.sizes[0]))
    x = np.concatenate([grey, model.all_x[:2]])
    gradient = model.gradient(x)
    assert set(gradient) == set(model.parameters)
    step = 1e-5
    for name, array in model.parameters.items():
        for index in np.ndindex(array.shape):
            sides = []
            for sign in (1, -1):
                moved = {**model.parameters, name: array.copy()}
                moved[name][index] += sign * step
                sides.append(ExactModel(moved).log_p_tilde_star(x).sum())
            slope = (sides[0] - sides[1]) / (2 * step)
            assert gradient[name][index] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_posterior_weights_give_the_gradient_of_log_p():
    parameters = random_parameters([3, 2, 2], seed=1)
    model, x, step = ExactModel(parameters), np.array([[1.0, 0, 1]]), 1e-5
    gradient = model.weighted_scores(x, np.exp(model.log_posterior(x)))
    for name in ("p0.W", "p1.W", "p1.b", "p2.b"):
        sides = []
        for sign in (1, -1):
            moved = {**parameters, name: parameters[name].copy()}
            moved[name].flat[1] += sign * step
            sides.append(ExactModel(moved).log_p(x)[0])
        slope = (sides[0] - sides[1]) / (2 * step)
        assert gradient[name].flat[1] == pytest.approx(slope, rel=1e-6)


def test_ess_limit_is_what_many_weights_give():
    model = ExactModel(random_parameters([3, 3, 2], seed=2))
    generator = np.random.default_rng(0)
    x, draws = model.all_x[3:4], 400_000
    chosen = generator.choice(32, size=draws, p=np.exp(model.log_q(x)[0]))
    for star, power in ((True, 0.5), (False, 1.0)):
        weights = np.exp(power * model.log_weights(x)[0, chosen])
        found = 100 * weights.sum() ** 2 / np.sum(weights**2) / draws
        assert model.ess_limit(x, star=star)[0] == pytest.approx(found, rel=0.02)
    twin = ExactModel(factorised_twin())
    np.testing.assert_allclose(twin.ess_limit(), 100, rtol=1e-10)


@pytest.mark.parametrize("scale", [50.0, 200.0])
def test_extreme_logits_stay_finite_and_right(scale):
    """With biases alone at ±scale every sum factorises, so log p~* has a closed form."""
    parameters = random_parameters([2, 2], seed=0, scale=0.0)
    parameters["p0.b"] = np.array([scale, -scale])
    parameters["p1.b"] = np.array([scale, scale])
    parameters["q0.b"] = np.array([scale, -scale])
    model = ExactModel(parameters)
    # sum over one latent bit of sqrt(p q): 1 where both agree, sqrt of the small one twice if not
    agree = 0.0
    differ = np.log(2) - 0.5 * scale
    expected = 2 * (agree + differ) + np.array([-scale, -2 * scale, 0.0, -scale])
    np.testing.assert_allclose(model.log_p_tilde_star(), expected, atol=1e-9)
    extreme = ExactModel(random_parameters([3, 2, 2], seed=5, scale=scale))
    assert np.all(np.isfinite(extreme.log_p_tilde_star()))
    assert extreme.log_z2 <= 0
    assert all(np.all(np.isfinite(a)) for a in extreme.gradient(extreme.all_x).values())


def test_bad_models_are_refused_by_name():
    good = random_parameters([3, 2, 2], seed=0)
    assert layer_sizes({**good, "meta": np.array("{}")}) == [3, 2, 2]
    with pytest.raises(InputError, match="q1.b is missing"):
        layer_sizes({name: a for name, a in good.items() if name != "q1.b"})
    with pytest.raises(InputError, match=r"p1.W has shape \(3, 2\), expected \(2, 2\)"):
        layer_sizes({**good, "p1.W": np.zeros((3, 2))})
    with pytest.raises(InputError, match="p0.b has values that are not finite"):
        layer_sizes({**good, "p0.b": np.array([0, np.nan, 0])})
    with pytest.raises(InputError, match="no array q0.W"):
        layer_sizes({})
    with pytest.raises(InputError, match="too many to enumerate"):
        ExactModel(random_parameters([15, 10], seed=0))
    with pytest.raises(InputError, match=r"expected \(batch, 3\)"):
        ExactModel(good).log_p(np.zeros((2, 4)))
    with pytest.raises(InputError, match="sizes"):
        random_parameters([3, 0], seed=0)

"""Every estimator meets the exact answer of a tiny model, within its own standard error."""

from __future__ import annotations

import numpy as np
import pytest
from exact import ExactModel, random_parameters, states

from bihm_repro.engine.symbolic import T, floatX, function
from bihm_repro.errors import InputError
from bihm_repro.estimators.effective_sample_size import estimate_effective_sample_size
from bihm_repro.estimators.log_likelihood import estimate_log_likelihood
from bihm_repro.estimators.partition_function import estimate_log_z2
from bihm_repro.estimators.streaming import LogWeights
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine

# 20 models with one to four layers and at most 12 units.
SIZES = [
    (3, 2),
    (5, 4),
    (4, 3, 2),
    (6, 3, 2),
    (3, 3, 3, 2),
    (5, 2, 2, 2),
    (2, 2, 2, 2, 2),
    (4, 2, 2, 2, 2),
    (6, 6),
    (1, 1),
] * 2


def tiny(sizes, seed, scale=0.5):
    """A model and its exact twin."""
    parameters = random_parameters(sizes, seed, scale)
    model = BidirectionalHelmholtzMachine(sizes[0], sizes[1:]).allocate()
    model.set_values(parameters)
    single = {name: value.astype(np.float32) for name, value in parameters.items()}
    return model, ExactModel(single)


@pytest.mark.parametrize("seed", range(20))
def test_log_likelihood_meets_enumeration(seed):
    """Unbiased in the mean of r and of sqrt r: compared there, in exact standard errors.

    All examples have to agree at once, so the limit is 5 where a single figure's would be 4.
    """
    model, exact = tiny(SIZES[seed], seed)
    x = states(SIZES[seed][0])
    log_r = LogWeights(model, seed)(x, 16384, 0)
    q = np.exp(exact.log_q(x))
    for power, truth in ((1.0, exact.log_p()), (0.5, exact.log_p_tilde_star() / 2)):
        second_moment = (q * np.exp(2 * power * exact.log_weights(x))).sum(axis=1)
        error = np.sqrt(np.maximum(second_moment - np.exp(2 * truth), 0) / log_r.shape[1])
        found = np.exp(power * log_r).mean(axis=1)
        assert np.all(np.abs(found - np.exp(truth)) < 5 * error + 1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_partition_function_meets_enumeration(seed):
    """2 log Z within 4 standard errors on 20 models."""
    model, exact = tiny(SIZES[seed], 100 + seed)
    estimate = estimate_log_z2(model, 40_000, inner=1 + seed % 3, seed=seed)
    assert estimate.samples == 40_000
    assert abs(estimate.value - exact.log_z2) < 4 * estimate.standard_error + 1e-6
    assert 0 < estimate.standard_error < 0.1


def test_a_wrong_divisor_would_be_noticed():
    """The tolerance is tight enough to refuse an estimate divided by the wrong number."""
    model, exact = tiny((5, 4), 3)
    estimate = estimate_log_z2(model, 10_000, seed=1)
    asked_for = np.ceil(10_000 / 4096) * 4096  # whole blocks instead of what was drawn
    wrong = estimate.value + np.log(10_000 / asked_for)
    assert abs(wrong - exact.log_z2) > 4 * estimate.standard_error


def test_z_squared_is_unbiased_and_its_error_honest():
    """Over 200 short runs the mean is Z^2, and the runs spread as the standard error says."""
    model, exact = tiny((4, 3, 2), 5)
    x, draw = T.lscalar("rows"), T.lscalar("draw")
    outer, log_r, draws = model.log_z_terms(x, 1, 11, draw)
    run = function([x, draw], [outer, log_r])
    means, errors = [], []
    for number in range(200):
        a, b = run(250, number * draws)
        terms = np.exp(np.asarray(a, float) + np.asarray(b, float)[:, 0] / 2)
        means.append(terms.mean())
        errors.append(terms.std(ddof=1) / np.sqrt(250))
    means = np.array(means)
    spread = means.std(ddof=1)
    assert abs(means.mean() - np.exp(exact.log_z2)) < 4 * spread / np.sqrt(200)
    assert spread / np.mean(errors) == pytest.approx(1.0, abs=4 / np.sqrt(2 * 200))


def test_effective_sample_size_meets_its_limit():
    """With many samples the estimate is the exact ratio E[w]^2 / E[w^2]."""
    model, exact = tiny((4, 3, 2), 8)
    x = states(4)
    ess = estimate_effective_sample_size(model, x, 20_000, seed=2)
    assert ess.p_star == pytest.approx(exact.ess_limit(x, star=True), rel=0.05)
    assert ess.p == pytest.approx(exact.ess_limit(x, star=False), rel=0.1)
    assert np.all(ess.p_star > ess.p)


def test_several_k_come_from_the_same_draws_and_last_blocks_are_right():
    """K = 1, 7, 250 in one go equal direct sums over the first K of the same log-weights."""
    model, _ = tiny((5, 4), 1)
    x = np.repeat(states(5), 70, axis=0)  # several blocks of examples, the last smaller
    together = estimate_log_likelihood(model, x, (1, 7, 250), seed=4)
    alone = estimate_log_likelihood(model, x, (250,), seed=4)
    assert together[250].log_p == pytest.approx(alone[250].log_p, abs=1e-12)
    assert together[1].log_p == pytest.approx(together[1].log_p_tilde_star, abs=1e-9)
    exact = ExactModel({n: v for n, v in model.get_values().items()})
    difference = together[250].log_p.reshape(32, 70).mean(axis=1) - exact.log_p(states(5))
    assert np.abs(difference).max() < 0.05


def test_more_samples_tighten_the_bound():
    """The mean estimate of log p rises with K towards the truth."""
    model, exact = tiny((6, 3, 2), 2, scale=0.7)
    x = np.repeat(states(6), 50, axis=0)
    found = estimate_log_likelihood(model, x, (1, 10, 1000), seed=0)
    means = [found[k].log_p.mean() for k in (1, 10, 1000)]
    assert means[0] < means[1] < means[2]
    assert means[2] == pytest.approx(exact.log_p(states(6)).mean(), abs=0.02)


def test_log_p_star_subtracts_log_z2():
    """log p* = log p~* - 2 log Z."""
    model, _ = tiny((3, 2), 0)
    found = estimate_log_likelihood(model, states(3), (5,), log_z2=-0.5)[5]
    assert found.log_p_star == pytest.approx(found.log_p_tilde_star + 0.5)


def test_grey_values_are_valid_data():
    """An observed 0.5 contributes half of each value's log-probability."""
    model, _ = tiny((3, 2), 6)
    x = np.array([[0.5, 0.25, 1.0]], dtype=np.float32)
    found = estimate_log_likelihood(model, x, (2000,))[2000]
    assert np.isfinite(found.log_p).all()
    parameters = model.get_values()
    h = states(2)
    logits = h @ parameters["p0.W"] + parameters["p0.b"]
    prior = (h * parameters["p1.b"] - np.logaddexp(0, parameters["p1.b"])).sum(1)
    log_joint = (x * logits - np.logaddexp(0, logits)).sum(1) + prior
    assert found.log_p[0] == pytest.approx(np.logaddexp.reduce(log_joint), abs=0.05)


def test_extreme_logits_are_finite_and_right():
    """Biases of +-50 make certain units: log p is that of the rest."""
    sizes = (4, 2)
    parameters = {n: np.zeros_like(v) for n, v in random_parameters(sizes, 0).items()}
    parameters["p0.b"] = np.array([50.0, -50.0, 50.0, 0.0])
    model = BidirectionalHelmholtzMachine(4, [2]).allocate()
    model.set_values(parameters)
    x = np.array([[1, 0, 1, 1], [0, 1, 0, 1]], dtype=np.float32)
    found = estimate_log_likelihood(model, x, (3,))[3]
    assert found.log_p == pytest.approx([-np.log(2), -150 - np.log(2)], rel=1e-6)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 5)), r"shape \(2, 5\): expected \(examples, 3\)"),
        (np.array([[0, 0, np.nan]]), "NaN in row 0"),
        (np.array([[0, 0, 0], [0, 2, 0]]), r"holds 2 in row 1: expected values in \[0, 1\]"),
        (np.zeros((0, 3)), "no example"),
    ],
)
def test_bad_data_are_named(x, message):
    """Width, NaN, range and emptiness are each said."""
    model, _ = tiny((3, 2), 0)
    with pytest.raises(InputError, match=message):
        estimate_log_likelihood(model, x, (1,))


@pytest.mark.parametrize(
    ("call", "least"),
    [
        (lambda m: estimate_log_likelihood(m, states(3), (0,)), 1),
        (lambda m: estimate_log_z2(m, 1), 2),
        (lambda m: estimate_log_z2(m, 10, inner=-1), 1),
        (lambda m: estimate_effective_sample_size(m, states(3), 0), 1),
    ],
)
def test_too_few_samples_are_refused(call, least):
    """K of at least 1; one term of Z^2 says nothing of its error, so two."""
    with pytest.raises(InputError, match=f"at least {least}"):
        call(tiny((3, 2), 0)[0])


def test_float_type_is_single():
    """The engine works in float32; sums are made in float64."""
    assert floatX == "float32"

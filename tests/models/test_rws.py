"""Reweighted wake-sleep against enumeration: weights, both phases of q, both float types."""

from __future__ import annotations

import numpy as np
import pytest
from exact import ExactModel, random_parameters, states

from bihm_repro.engine.symbolic import T, function
from bihm_repro.models.rws import ReweightedWakeSleep
from bihm_repro.recipes.recipe import Phase, TrainingRecipe
from bihm_repro.training.update import compile_update

SIZES = (3, 2, 2)


def tiny(seed, dtype="float64", scale=1.0):
    """A model and its exact twin."""
    parameters = random_parameters(SIZES, seed, scale)
    model = ReweightedWakeSleep(SIZES[0], SIZES[1:], dtype=dtype).allocate()
    model.set_values(parameters)
    return model, ExactModel(parameters)


def gradients_of_calls(model, x, samples, calls, control_variate, seed=5):
    """Descent gradients of ``calls`` updates on ``x``, by name, (calls, *shape) each."""
    rows, counter = T.matrix("x", dtype=model.dtype), T.lscalar("counter")
    graph = model.training_graph(rows, samples, seed, counter, control_variate=control_variate)
    # The reference in numpy needs no compiler, and a compilation would take most of the time.
    options = {"mode": "FAST_COMPILE"} if model.dtype == "float64" else {}
    run = function([rows, counter], [graph.gradients[p] for p in model.parameters], **options)
    found = [run(x.astype(model.dtype), call * graph.counters) for call in range(calls)]
    return {p.name: np.array([g[i] for g in found], float) for i, p in enumerate(model.parameters)}


def standard_scores(found, expected):
    """How many standard errors the mean over calls is from ``expected``, by name."""
    return {
        name: (values.mean(axis=0) - expected[name])
        / (values.std(axis=0, ddof=1) / np.sqrt(len(values)))
        for name, values in found.items()
    }


def pair_weights(exact, x, power=1.0):
    """E sum_k w_k [h_k = h] for K = 2 and weights r**power, (batch, latent states)."""
    log_q, log_w = exact.log_q(x), power * exact.log_weights(x)
    share = 1 / (1 + np.exp(log_w[:, None, :] - log_w[:, :, None]))
    return 2 * np.exp(log_q) * np.einsum("xhg,xg->xh", share, np.exp(log_q))


def expected_gradients(exact, x, weights):
    """Descent gradients for the expected importance ``weights``, q's with its sleep phase."""
    wake = exact.weighted_scores(x, weights)
    sleep = exact.weighted_scores(exact.all_x, np.exp(exact.log_joint()))
    return {
        name: -value if name.startswith("p") else -(value + len(x) * sleep[name]) / 2
        for name, value in wake.items()
    }


@pytest.mark.parametrize("control_variate", [False, True])
def test_expected_gradient_at_two_samples_is_exact(control_variate):
    """The expectation over all pairs of samples; the control variate leaves it as it is."""
    model, exact = tiny(0)
    copies, x = 500, states(SIZES[0])
    found = gradients_of_calls(model, np.tile(x, (copies, 1)), 2, 60, control_variate)
    found = {name: values / copies for name, values in found.items()}
    scores = standard_scores(found, expected_gradients(exact, x, pair_weights(exact, x)))
    assert max(np.abs(s).max() for s in scores.values()) < 4.5
    wrong = standard_scores(found, expected_gradients(exact, x, pair_weights(exact, x, 0.5)))
    assert np.abs(wrong["p0.W"]).max() > 10 and np.abs(wrong["q0.W"]).max() > 10


def test_many_samples_follow_the_gradient_of_log_p():
    """As K grows, p's gradient is that of log p(x) and q's wake weights are p(h|x)."""
    model, exact = tiny(1)
    x = states(SIZES[0])
    found = gradients_of_calls(model, x, 3000, 40, False)
    scores = standard_scores(found, expected_gradients(exact, x, np.exp(exact.log_posterior(x))))
    assert max(np.abs(s).max() for s in scores.values()) < 4.5
    step, direction = 1e-5, np.random.default_rng(0).normal(size=(2, 3))
    moved = [
        ExactModel({**exact.parameters, "p0.W": exact.parameters["p0.W"] + t * direction})
        .log_p(x)
        .sum()
        for t in (-step, step)
    ]
    slope = (moved[1] - moved[0]) / (2 * step)
    along = -np.einsum("cij,ij->c", found["p0.W"], direction)
    assert abs(along.mean() - slope) < 4 * along.std(ddof=1) / np.sqrt(len(along))


def test_the_sleep_phase_alone_and_its_share_are_exact():
    """With one sample the control variate removes the wake phase: half the sleep phase is left."""
    model, exact = tiny(2)
    x = np.tile(states(SIZES[0]), (50, 1))
    found = gradients_of_calls(model, x, 1, 60, True)
    sleep = exact.weighted_scores(exact.all_x, np.exp(exact.log_joint()))
    expected = {name: -len(x) * sleep[name] / 2 for name in sleep if name.startswith("q")}
    scores = standard_scores({name: found[name] for name in expected}, expected)
    assert max(np.abs(s).max() for s in scores.values()) < 4.5
    assert (
        max(
            np.abs(s).max()
            for s in standard_scores(
                {name: found[name] for name in expected},
                {name: 2 * value for name, value in expected.items()},
            ).values()
        )
        > 20
    )


def test_single_precision_gives_the_same_gradients():
    """The fused float32 Ops and the float64 reference agree on the same draws."""
    x = np.tile(states(SIZES[0]), (10, 1))
    double = gradients_of_calls(tiny(3)[0], x, 7, 2, False)
    single = gradients_of_calls(tiny(3, "float32")[0], x, 7, 2, False)
    for name, values in double.items():
        assert single[name] == pytest.approx(values, abs=2e-4)


def test_wake_sleep_and_next_call_share_no_random_numbers():
    """L draws upwards, L + 1 downwards; the monitor is the estimate of log p with K samples."""
    model, exact = tiny(4, "float32")
    x, counter = T.matrix("x"), T.lscalar("counter")
    graph = model.training_graph(x, 5000, 0, counter)
    assert graph.counters == 2 * len(model.layers) + 1
    assert list(graph.monitors) == ["log_p"]
    value = function([x, counter], graph.monitors["log_p"])(states(3).astype(np.float32), 0)
    assert value == pytest.approx(exact.log_p().sum(), abs=0.3)


def test_updates_raise_log_p_and_bring_q_to_the_posterior():
    """300 updates on four vectors: log p rises, and the bound comes close to it."""
    model = ReweightedWakeSleep(4, [4, 2], weights="glorot", bias=0.0).allocate().initialize(0)
    x = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]], np.float32)
    before = ExactModel(model.get_values()).log_p(x).mean()
    update = compile_update(
        model,
        TrainingRecipe(l1=0.0, control_variate=False),
        Phase(samples=10, learning_rate=0.03),
        seed=1,
    )
    for _ in range(300):
        update(np.tile(x, (10, 1)))
    after = ExactModel(model.get_values())
    assert before < -2.7 and after.log_p(x).mean() > -1.7
    assert after.log_p(x).mean() - after.expected_log_weight(x).mean() < 0.5

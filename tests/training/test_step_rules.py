"""Step rules against plain loops in numpy, and against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.engine.symbolic import T, function, shared
from bihm_repro.training import step_rules

STEPS = 25
GENERATOR = np.random.default_rng(5)
START = [GENERATOR.normal(size=(3, 4)), GENERATOR.normal(size=4)]
GRADIENTS = [[scale * GENERATOR.normal(size=value.shape) for value in START]
             for scale in np.geomspace(0.01, 100, STEPS)]


PLAIN = "FAST_COMPILE"
"""Runs a graph Op by Op in numpy: no compiler to wait for where C code is not what is tested."""


def run_rule(rule, rate, start=START, gradients=GRADIENTS, mode=PLAIN):
    """Take the steps with the compiled rule; returns the parameters at the end and the step."""
    parameters = [shared(np.asarray(value, np.float32), name=f"w{index}")
                  for index, value in enumerate(start)]
    inputs = [T.matrix(dtype="float32") if np.ndim(value) == 2 else T.vector(dtype="float32")
              for value in start]
    rate_variable = shared(np.float32(rate), name="rate")
    step = rule(parameters, inputs, rate_variable)
    take = function(inputs, [], updates=step.updates, mode=mode)
    for values in gradients:
        take(*[np.asarray(value, np.float32) for value in values])
    return [parameter.get_value() for parameter in parameters], step


def sgd_loop(w, gradients, rate):
    for g in gradients:
        w = w - rate * g
    return w


def momentum_loop(w, gradients, rate):
    velocity = 0
    for g in gradients:
        velocity = 0.9 * velocity - rate * g
        w = w + velocity
    return w


def rmsprop_loop(w, gradients, rate):
    mean_square = 0
    for g in gradients:
        mean_square = 0.9 * mean_square + 0.1 * g**2
        w = w - rate * g / np.sqrt(mean_square + 1e-6)
    return w


def adam_loop(w, gradients, rate):
    """The algorithm as published, with both moments corrected before they are used."""
    m = v = 0
    for t, g in enumerate(gradients, start=1):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g**2
        w = w - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w


@pytest.mark.parametrize(("rule", "loop", "mode"), [
    (step_rules.sgd, sgd_loop, PLAIN), (step_rules.momentum, momentum_loop, PLAIN),
    (step_rules.rmsprop, rmsprop_loop, PLAIN), (step_rules.adam, adam_loop, PLAIN),
    (step_rules.fused_adam, adam_loop, PLAIN), (step_rules.fused_adam, adam_loop, None)])
def test_a_rule_equals_a_plain_loop(rule, loop, mode):
    ended, _ = run_rule(rule, 0.01, mode=mode)
    for index, start in enumerate(START):
        wanted = loop(start, [values[index] for values in GRADIENTS], 0.01)
        np.testing.assert_allclose(ended[index], wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("rule", "wanted"), [
    # One step from w = (1, -2) with g = (2, -0.5) and rate 0.1.
    (step_rules.sgd, [0.8, -1.95]),
    (step_rules.momentum, [0.8, -1.95]),
    # g / sqrt(0.1 g^2) = sign(g) * sqrt(10)
    (step_rules.rmsprop, [1 - 0.1 * 10**0.5, -2 + 0.1 * 10**0.5]),
    # The first step of Adam has the size of the rate, whatever the gradient.
    (step_rules.adam, [0.9, -1.9]),
    (step_rules.fused_adam, [0.9, -1.9]),
], ids=lambda item: getattr(item, "__name__", ""))
def test_the_first_step_is_the_one_worked_out_by_hand(rule, wanted):
    (ended,), _ = run_rule(rule, 0.1, start=[[1.0, -2.0]], gradients=[[[2.0, -0.5]]])
    np.testing.assert_allclose(ended, wanted, rtol=1e-5)


def test_two_steps_of_momentum_by_hand():
    # v1 = -0.1, v2 = 0.9 * -0.1 - 0.1 = -0.19; w = 1 - 0.1 - 0.19
    (ended,), _ = run_rule(step_rules.momentum, 0.1, start=[[1.0]], gradients=[[[1.0]], [[1.0]]])
    np.testing.assert_allclose(ended, [0.71], rtol=1e-6)


def test_the_fused_rule_equals_the_symbolic_one_with_penalties():
    def symbolic(parameters, gradients, rate):
        gradients = step_rules.with_penalties(parameters, gradients, parameters[:1], 0.3, 0.2)
        return step_rules.adam(parameters, gradients, rate)

    def fused(parameters, gradients, rate):
        return step_rules.fused_adam(parameters, gradients, rate, parameters[:1], 0.3, 0.2)

    one, step_one = run_rule(symbolic, 0.01)
    other, step_other = run_rule(fused, 0.01, mode=None)
    plain, _ = run_rule(step_rules.adam, 0.01)
    for a, b in zip(one, other):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert np.abs(one[0] - plain[0]).max() > 0.01
    np.testing.assert_allclose(one[1], plain[1], rtol=1e-5)
    assert [v.name for v in step_one.state] == [v.name for v in step_other.state]


def test_penalties_are_added_to_the_gradients_of_weights_only():
    weight = shared(np.array([[2.0, -3.0, 0.0]], np.float32), name="W")
    bias = shared(np.array([5.0], np.float32), name="b")
    gradients = [T.constant(np.ones((1, 3), np.float32)), T.constant(np.ones(1, np.float32))]
    both = step_rules.with_penalties([weight, bias], gradients, [weight], l1=0.5, l2=0.25)
    of_weight, of_bias = function([], both, mode=PLAIN)()
    # 1 + 0.5 sign(w) + 2 * 0.25 w
    np.testing.assert_allclose(of_weight, [[2.5, -1.0, 1.0]])
    np.testing.assert_allclose(of_bias, [1.0])


@pytest.mark.parametrize(("limit", "wanted"), [(10.0, [[3.0], [4.0]]), (2.5, [[1.5], [2.0]])])
def test_clipping_scales_all_gradients_by_their_joint_norm(limit, wanted):
    gradients = [T.constant(np.array([3.0], np.float32)), T.constant(np.array([4.0], np.float32))]
    take = function([], step_rules.clipped(gradients, limit), mode=PLAIN)
    np.testing.assert_allclose(take(), wanted)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_step_with_a_bad_gradient_changes_nothing(bad):
    def careful(parameters, gradients, rate):
        return step_rules.skip_non_finite(step_rules.adam(parameters, gradients, rate), gradients)

    good = [[np.ones(2), np.ones(1)]]
    spoilt = [[np.ones(2), np.array([bad])]]
    start = [np.zeros(2), np.zeros(1)]
    without, _ = run_rule(careful, 0.1, start, good + good)
    with_bad, step = run_rule(careful, 0.1, start, good + spoilt + good)
    for a, b in zip(without, with_bad):
        np.testing.assert_array_equal(a, b)
    assert step.state[0].get_value() == 2


def test_running_means_follow_the_parameters_and_leave_them_alone():
    """The plain mean of the first values, then weights that fall by a quarter a step."""
    def averaging(parameters, gradients, rate):
        step, means = step_rules.with_averages(
            step_rules.sgd(parameters, gradients, rate), parameters, over=4)
        assert step.state[1:] == means
        return step

    start, steps = [np.zeros(1)], [[np.array([g])] for g in (1.0, -4.0, 2.0, 3.0, -8.0, 5.0)]
    path = -np.cumsum([g[0][0] for g in steps])
    for count in (1, 3, 6):
        values, step = run_rule(averaging, 1.0, start, steps[:count])
        mean = path[:min(count, 4)].mean()
        for value in path[4:count]:
            mean += (value - mean) / 4
        np.testing.assert_allclose(values[0], path[count - 1])
        assert [v.name for v in step.state] == ["average.count", "average.w0"]
        np.testing.assert_allclose(step.state[1].get_value(), [mean], rtol=1e-6)
        assert step.state[0].get_value() == count


def test_state_names_tell_the_parameters_apart():
    _, step = run_rule(step_rules.adam, 0.1)
    assert [variable.name for variable in step.state] == [
        "adam.count", "adam.first.w0", "adam.second.w0", "adam.first.w1", "adam.second.w1"]
    assert step.state[0].get_value() == STEPS and step.state[0].get_value().dtype == np.int64

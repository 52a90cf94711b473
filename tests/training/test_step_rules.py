"""Step rules against plain loops in numpy, and against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.engine.symbolic import T, function, shared
from bihm_repro.training import step_rules
from bihm_repro.training.step import Centres, Penalty, fused_step

STEPS = 25
GENERATOR = np.random.default_rng(5)
START = [GENERATOR.normal(size=(3, 4)), GENERATOR.normal(size=4)]
GRADIENTS = [
    [scale * GENERATOR.normal(size=value.shape) for value in START]
    for scale in np.geomspace(0.01, 100, STEPS)
]


PLAIN = "FAST_COMPILE"
"""Runs a graph Op by Op in numpy: no compiler to wait for where C code is not what is tested."""


def run_rule(rule, rate, start=START, gradients=GRADIENTS, mode=PLAIN):
    """Take the steps with the compiled rule; returns the parameters at the end and the step."""
    parameters = [
        shared(np.asarray(value, np.float32), name=f"w{index}") for index, value in enumerate(start)
    ]
    inputs = [
        T.matrix(dtype="float32") if np.ndim(value) == 2 else T.vector(dtype="float32")
        for value in start
    ]
    rate_variable = shared(np.float32(rate), name="rate")
    step = rule(parameters, inputs, rate_variable)
    take = function(inputs, [], updates=step.updates, mode=mode)
    for values in gradients:
        take(*[np.asarray(value, np.float32) for value in values])
    return [parameter.get_value() for parameter in parameters], step


def fused_adam(parameters, gradients, rate):
    return fused_step(parameters, gradients, rate, Penalty(), Centres({}))


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


@pytest.mark.parametrize(
    ("rule", "loop", "mode"),
    [
        (step_rules.sgd, sgd_loop, PLAIN),
        (step_rules.momentum, momentum_loop, PLAIN),
        (step_rules.rmsprop, rmsprop_loop, PLAIN),
        (step_rules.adam, adam_loop, PLAIN),
        (fused_adam, adam_loop, PLAIN),
        (fused_adam, adam_loop, None),
    ],
)
def test_a_rule_equals_a_plain_loop(rule, loop, mode):
    ended, _ = run_rule(rule, 0.01, mode=mode)
    for index, start in enumerate(START):
        wanted = loop(start, [values[index] for values in GRADIENTS], 0.01)
        np.testing.assert_allclose(ended[index], wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        # One step from w = (1, -2) with g = (2, -0.5) and rate 0.1.
        (step_rules.sgd, [0.8, -1.95]),
        (step_rules.momentum, [0.8, -1.95]),
        # g / sqrt(0.1 g^2) = sign(g) * sqrt(10)
        (step_rules.rmsprop, [1 - 0.1 * 10**0.5, -2 + 0.1 * 10**0.5]),
        # The first step of Adam has the size of the rate, whatever the gradient.
        (step_rules.adam, [0.9, -1.9]),
        (fused_adam, [0.9, -1.9]),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_the_first_step_is_the_one_worked_out_by_hand(rule, wanted):
    (ended,), _ = run_rule(rule, 0.1, start=[[1.0, -2.0]], gradients=[[[2.0, -0.5]]])
    np.testing.assert_allclose(ended, wanted, rtol=1e-5)


def test_two_steps_of_momentum_by_hand():
    # v1 = -0.1, v2 = 0.9 * -0.1 - 0.1 = -0.19; w = 1 - 0.1 - 0.19
    (ended,), _ = run_rule(step_rules.momentum, 0.1, start=[[1.0]], gradients=[[[1.0]], [[1.0]]])
    np.testing.assert_allclose(ended, [0.71], rtol=1e-6)


@pytest.mark.parametrize(("limit", "wanted"), [(10.0, [[3.0], [4.0]]), (2.5, [[1.5], [2.0]])])
def test_clipping_scales_all_gradients_by_their_joint_norm(limit, wanted):
    gradients = [T.constant(np.array([3.0], np.float32)), T.constant(np.array([4.0], np.float32))]
    take = function([], step_rules.clipped(gradients, limit), mode=PLAIN)
    np.testing.assert_allclose(take(), wanted)


def test_state_names_tell_the_parameters_apart():
    _, step = run_rule(step_rules.adam, 0.1)
    assert [variable.name for variable in step.state] == [
        "adam.count",
        "adam.first.w0",
        "adam.second.w0",
        "adam.first.w1",
        "adam.second.w1",
    ]
    assert step.state[0].get_value() == STEPS and step.state[0].get_value().dtype == np.int64

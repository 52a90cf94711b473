"""Centring, penalties and averages in one step: against numpy loops and exact symmetries."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.engine.symbolic import T, function, shared
from bihm_repro.ops.adam import upper_triangle
from bihm_repro.training.step import Averages, Centres, Penalty, fused_step, plain_step
from bihm_repro.training.step_rules import RULES

PLAIN = "FAST_COMPILE"
INPUTS, UNITS, ROWS, STEPS = 6, 4, 12, 15
RNG = np.random.default_rng(8)
W0, B0 = RNG.normal(size=(INPUTS, UNITS)), RNG.normal(size=UNITS)
A = (RNG.random((STEPS, ROWS, INPUTS)) < 0.7).astype(np.float64)
TARGETS = (RNG.random((STEPS, ROWS, UNITS)) < 0.3).astype(np.float64)
RATE = 0.05


class Regression:
    """Logistic regression of TARGETS on A, trained with one of the steps."""

    def __init__(
        self, build, weights=W0, bias=B0, centred=True, over=None, mode=PLAIN, full_rows=None
    ):
        mask = np.ones((INPUTS, UNITS), np.float32)
        if full_rows is not None:
            mask = upper_triangle(INPUTS, UNITS, full_rows, "float32")
        self.w = shared(np.asarray(weights * mask, np.float32), name="p0.W")
        self.w.tag.full_rows = full_rows
        self.b = shared(np.asarray(bias, np.float32), name="p0.b")
        a, values = T.matrix(dtype="float32"), T.matrix(dtype="float32")
        residual = 1 / (1 + T.exp(-(T.dot(a, self.w) + self.b))) - values
        parameters = [self.w, self.b]
        gradients = [T.dot(a.T, residual) * mask, residual.sum(axis=0)]
        centres = Centres({self.w: (self.b, a.mean(axis=0))} if centred else {})
        self.averages = Averages(parameters, over) if over else None
        self.step = build(parameters, gradients, np.float32(RATE), centres, self.averages)
        self.take = function([a, values], [], updates=self.step.updates, mode=mode)

    def train(self, inputs=A, targets=TARGETS):
        path = []
        for a, values in zip(inputs, targets):
            self.take(a.astype(np.float32), values.astype(np.float32))
            path.append((self.w.get_value(), self.b.get_value()))
        return path


def plain(rule, l1=0.3, l2=0.02, proximal=False, clip=0.0):
    def build(parameters, gradients, rate, centres, averages):
        penalty = Penalty(parameters[:1], l1, l2, proximal)
        return plain_step(
            RULES[rule], parameters, gradients, rate, penalty, centres, averages, clip
        )

    return build


def fused(l1=0.3, l2=0.02, proximal=False):
    def build(parameters, gradients, rate, centres, averages):
        penalty = Penalty(parameters[:1], l1, l2, proximal)
        return fused_step(parameters, gradients, rate, penalty, centres, averages)

    return build


def assert_paths_equal(one, other, rtol=2e-4, atol=2e-5):
    for (w, b), (v, c) in zip(one, other):
        np.testing.assert_allclose(w, v, rtol=rtol, atol=atol)
        np.testing.assert_allclose(b, c, rtol=rtol, atol=atol)


def test_a_centred_step_of_descent_is_the_step_of_the_centred_parametrisation():
    """Descent on (W, b') of (a - c) W + b', c held over the step, written back into W and b."""
    path = Regression(plain("sgd", l1=0.0, l2=0.0)).train()
    w, b, centre = W0.copy(), B0.copy(), np.zeros(INPUTS)
    for step, (a, values) in enumerate(zip(A, TARGETS)):
        centre += max(0.01, 1 / (step + 1)) * (a.mean(axis=0) - centre)
        own_bias = b + centre @ w
        residual = 1 / (1 + np.exp(-((a - centre) @ w + own_bias))) - values
        w = w - RATE * (a - centre).T @ residual
        own_bias = own_bias - RATE * residual.sum(axis=0)
        b = own_bias - centre @ w
        np.testing.assert_allclose(path[step][0], w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(path[step][1], b, rtol=1e-4, atol=1e-5)


def test_centres_of_zero_give_the_plain_update():
    """Inputs whose mean is zero: the centred rule and the plain one take the same path."""
    inputs = np.concatenate([A - 0.5, 0.5 - A], axis=1)
    targets = np.concatenate([TARGETS, TARGETS], axis=1)
    for build in (plain("adam"), fused()):
        assert_paths_equal(
            Regression(build).train(inputs, targets),
            Regression(build, centred=False).train(inputs, targets),
            rtol=1e-5,
            atol=1e-6,
        )


@pytest.mark.parametrize(
    "build",
    [
        plain("sgd"),
        plain("momentum"),
        plain("rmsprop"),
        plain("adam"),
        plain("adam", clip=2.0),
        plain("adam", proximal=True),
        fused(),
        fused(proximal=True),
    ],
    ids=["sgd", "momentum", "rmsprop", "adam", "clipped", "proximal", "fused", "fused-proximal"],
)
def test_flipped_units_take_the_flipped_path(build):
    """Call the other state of some inputs and outputs 1: the same model, the same steps."""
    inputs = np.array([1, 0, 0, 1, 1, 0], bool)
    outputs = np.array([0, 1, 0, 1], bool)
    sign_in, sign_out = np.where(inputs, -1, 1), np.where(outputs, -1, 1)

    def flip(w, b):
        b = b + w[inputs].sum(axis=0)
        return sign_in[:, None] * w * sign_out, b * sign_out

    flipped = Regression(build, *flip(W0, B0)).train(
        np.where(inputs, 1 - A, A), np.where(outputs, 1 - TARGETS, TARGETS)
    )
    path = Regression(build).train()
    assert_paths_equal([flip(w, b) for w, b in path], flipped)
    without = Regression(build, centred=False).train()
    assert np.abs(without[-1][0] - path[-1][0]).max() > 0.01


@pytest.mark.parametrize("proximal", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_the_fused_step_equals_the_symbolic_one(proximal, centred):
    one = Regression(plain("adam", proximal=proximal), centred=centred, over=4)
    other = Regression(fused(proximal=proximal), centred=centred, over=4, mode=None)
    assert_paths_equal(one.train(), other.train())
    for w, v in zip(one.averages.means.values(), other.averages.means.values()):
        np.testing.assert_allclose(w.get_value(), v.get_value(), rtol=2e-4, atol=2e-5)
    assert sorted(v.name for v in one.step.state) == sorted(v.name for v in other.step.state)
    names = {v.name for v in other.step.state}
    assert ("centre.p0.W" in names) == centred and "average.p0.b" in names


@pytest.mark.parametrize("centred", [False, True])
def test_triangular_weights_stay_triangular(centred):
    """Rows from the third on; the fused step, and descent on the centred parametrisation."""
    one = Regression(plain("adam"), centred=centred, full_rows=2)
    other = Regression(fused(), centred=centred, mode=None, full_rows=2)
    assert_paths_equal(one.train(), other.train())
    assert not np.tril(other.w.get_value()[2:]).any()
    assert np.abs(np.triu(other.w.get_value()[2:], 1) - np.triu(W0[2:], 1)).max() > 0.1
    if not centred:
        return
    (w, b), *_ = Regression(plain("sgd", l1=0.0, l2=0.0), full_rows=2).train(A[:1], TARGETS[:1])
    mask, centre = upper_triangle(INPUTS, UNITS, 2, "float64"), A[0].mean(axis=0)
    old = W0 * mask
    residual = 1 / (1 + np.exp(-(A[0] @ old + B0))) - TARGETS[0]
    new = old - RATE * mask * ((A[0] - centre).T @ residual)
    own_bias = B0 + centre @ old - RATE * residual.sum(axis=0)
    np.testing.assert_allclose(w, new, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(b, own_bias - centre @ new, rtol=1e-4, atol=1e-5)


def test_averages_are_means_of_the_path():
    """The plain mean of the first values, then weights that decay by a quarter per step."""
    trained = Regression(fused(), over=4)
    path = np.array([w for w, _ in trained.train()])
    mean = path[:4].mean(axis=0)
    for value in path[4:]:
        mean += (value - mean) / 4
    found = trained.averages.means[trained.w].get_value()
    np.testing.assert_allclose(found, mean, rtol=1e-4, atol=1e-5)
    assert trained.averages.count.get_value() == STEPS


def test_penalties_are_for_weights_only_and_l1_is_a_sign():
    weight = shared(np.array([[2.0, -3.0, 0.0]], np.float32), name="W")
    penalty = Penalty([weight], l1=0.5, l2=0.25)
    ones = T.constant(np.ones((1, 3), np.float32))
    # 1 + 0.5 sign(w) + 2 * 0.25 w
    np.testing.assert_allclose(
        function([], penalty.gradient(weight, ones), mode=PLAIN)(), [[2.5, -1.0, 1.0]]
    )
    assert penalty.gradient(shared(np.ones(3, np.float32)), ones) is ones
    shrunk = Penalty([weight], l1=0.5, proximal=True).shrink(weight, weight, np.float32(5))
    np.testing.assert_allclose(function([], shrunk, mode=PLAIN)(), [[0.0, -0.5, 0.0]])

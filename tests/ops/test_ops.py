"""Fused Ops: C against the numpy reference, the reference against a graph of plain expressions."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from bihm_repro.engine.symbolic import T, function, shared
from bihm_repro.ops.adam import AdamUpdate, CentredAdamUpdate, adam_update, centred_adam_update
from bihm_repro.ops.affine import Affine, affine
from bihm_repro.ops.bernoulli import SampleLayer, ScoreLayer, sample_layer, score_layer
from bihm_repro.ops.fused import GRADIENT_ROWS
from bihm_repro.ops.gradients import (
    SummedResidual,
    WeightedGradient,
    column_means,
    summed_residual,
    weighted_gradient,
)
from bihm_repro.ops.random_numbers import uniform

SHAPES = [(1, 1, 1), (7, 5, 3), (16, 8, 8), (33, 20, 37), (64, 130, 301)]
RNG = np.random.default_rng(0)


def reference(op, *inputs):
    """What ``perform`` computes, for inputs of the Op's own types."""
    symbolic = [T.as_tensor_variable(np.asarray(i)) for i in inputs]
    node = op.make_node(*symbolic)
    storage = [[None] for _ in node.outputs]
    op.perform(node, [np.array(i) for i in inputs], storage)
    return [cell[0] for cell in storage]


def normal(*shape, scale=1.0):
    return (RNG.normal(size=shape) * scale).astype(np.float32)


def binary(*shape):
    return (RNG.random(shape) < 0.4).astype(np.float32)


@pytest.fixture(scope="module", params=[{}, {"residual": True}, {"mean": True}])
def compiled_sample(request):
    x, w, b = T.matrix(), T.matrix(), T.vector()
    repeats, counter = T.lscalar(), T.lscalar()
    drawn = sample_layer(x, w, b, repeats=repeats, seed=77, counter=counter, **request.param)
    outputs = [v for v in drawn if v is not None]
    return request.param, function([x, w, b, repeats, counter], outputs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("repeats", [1, 5])
def test_sample_layer_equals_reference(compiled_sample, shape, repeats):
    options, run = compiled_sample
    n, inputs, units = shape
    x, w, b = normal(n, inputs), normal(inputs, units, scale=0.3), normal(units)
    found = run(x, w, b, repeats, 9)
    expected = reference(
        SampleLayer("residual" in options, "mean" in options), x, w, b, repeats, 77, 9
    )
    assert len(found) == len(expected)
    assert np.mean(found[0] != expected[0]) < 1e-4  # a sample may meet a rounded probability
    same = (found[0] == expected[0]).all(axis=1)
    assert found[1][same] == pytest.approx(expected[1][same], rel=1e-5, abs=1e-5)
    if "residual" in options:
        assert found[2][same] == pytest.approx(expected[2][same], abs=2e-6)
    if "mean" in options:
        assert found[2] == pytest.approx(expected[2], abs=2e-6)


def test_sample_layer_equals_its_definition():
    """h = [u < s(l)], log q = sum h l - softplus(l), residual s(l) - h, written out in float64."""
    logits = normal(40, 19, scale=3)
    logit, counter = T.matrix(), T.lscalar()
    drawn = sample_layer(logit, repeats=1, seed=5, counter=counter, residual=True)
    sample, log_q, residual = function([logit, counter], list(drawn[:3]))(logits, 2)
    wide = logits.astype(np.float64)
    probability = 1 / (1 + np.exp(-wide))
    h = (uniform(5, 2, 40, 19) < probability).astype(float)
    assert np.array_equal(sample, h)
    assert log_q == pytest.approx((h * wide - np.logaddexp(0, wide)).sum(axis=1), rel=1e-5)
    assert residual == pytest.approx(probability - h, abs=1e-6)


def test_samples_have_the_right_frequencies():
    probability = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
    logits = np.log(probability / (1 - probability)).astype(np.float32)[None]
    logit, count = T.matrix(), T.lscalar()
    n = 200_000
    run = function([logit, count], sample_layer(logit, repeats=count, seed=1, counter=0).sample)
    drawn = run(logits, n)
    error = np.sqrt(probability * (1 - probability) / n)
    assert np.all(np.abs(drawn.mean(axis=0) - probability) < 4 * error)


@pytest.mark.parametrize("shape", [*SHAPES, (3000, 20, 300)])
def test_affine_equals_reference_and_gives_the_layer_ops_their_logits(shape):
    n, inputs, units = shape
    x, w, b = T.matrix(), T.matrix(), T.vector()
    arrays = binary(n, inputs), normal(inputs, units, scale=2), normal(units)
    logits, of_layer, of_logits = function(
        [x, w, b],
        [
            affine(x, w, b),
            sample_layer(x, w, b, repeats=2, seed=1, counter=3).sample,
            sample_layer(affine(x, w, b), repeats=2, seed=1, counter=3).sample,
        ],
    )(*arrays)
    assert logits == pytest.approx(reference(Affine(), *arrays)[0], rel=1e-5, abs=1e-5)
    assert np.array_equal(of_layer, of_logits)


# Both sides of the widths and numbers of rows that decide how a product is made.
PRODUCT_SHAPES = [
    (40, 15, 31),
    (40, 31, 64),
    (40, 64, 31),
    (9, 32, 32),
    (31, 33, 47),
    (300, 64, 128),
    (GRADIENT_ROWS + 6, 40, 129),
    (1052, 130, 301),
]


def mostly_zero(density, rows, columns, binary):
    """A share of values of 1, or in (0, 1], among zeros; the first row and column are empty."""
    ones = np.ones((rows, columns))
    values = np.where(RNG.random((rows, columns)) < 0.5, 1, 1 if binary else 0.3) * ones
    values = values * (RNG.random((rows, columns)) < density)
    values[0], values[:, 0] = 0, 0
    return values.astype(np.float32)


@pytest.fixture(scope="module")
def compiled_products():
    x, w, b, r, weight = T.matrix(), T.matrix(), T.vector(), T.matrix(), T.vector()
    return function([x, w, b, r, weight], [affine(x, w, b), *weighted_gradient(x, r, weight)])


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.15, 0.6])
@pytest.mark.parametrize("shape", PRODUCT_SHAPES)
def test_products_of_binary_and_other_inputs_equal_the_reference(
    compiled_products, shape, density, binary
):
    n, inputs, units = shape
    x, w, b = mostly_zero(density, n, inputs, binary), normal(inputs, units), normal(units)
    r, weight = normal(n, units), normal(n)
    logits, gradient, bias = compiled_products(x, w, b, r, weight)
    assert_products(x, w, b, r, weight, logits, gradient, bias)


def assert_products(x, w, b, r, weight, logits, gradient, bias):
    """Compare with products in float64; the first row and column of x are empty."""
    wide = [v.astype(np.float64) for v in (x, w, b, r, weight)]
    assert logits == pytest.approx(wide[0] @ wide[1] + wide[2], rel=1e-5, abs=2e-5)
    scaled = wide[3] * wide[4][:, None]
    assert gradient == pytest.approx(wide[0].T @ scaled, rel=1e-4, abs=1e-4)
    assert bias == pytest.approx(scaled.sum(axis=0), rel=1e-4, abs=1e-3)
    assert not gradient[0].any() and np.array_equal(logits[0], b)


@pytest.mark.parametrize("repeats", [3, 10, 150])
@pytest.mark.parametrize("switched", [0.0, 0.03, 0.2])
@pytest.mark.parametrize("shape", PRODUCT_SHAPES)
def test_products_of_rows_that_are_alike_equal_the_reference(
    compiled_products, shape, switched, repeats
):
    """Groups of rows in which a share of the units differs from row to row."""
    n, inputs, units = shape
    x = np.repeat(mostly_zero(0.3, n // repeats + 1, inputs, True), repeats, axis=0)[:n]
    x = np.abs(x - (RNG.random(x.shape) < switched)).astype(np.float32)
    x[0], x[:, 0] = 0, 0
    arrays = x, normal(inputs, units), normal(units), normal(n, units), normal(n)
    assert_products(*arrays, *compiled_products(*arrays))


def test_affine_refuses_shapes_that_do_not_fit():
    x, w, b = T.matrix(), T.matrix(), T.vector()
    with pytest.raises(ValueError):
        function([x, w, b], affine(x, w, b))(normal(4, 3), normal(2, 5), normal(5))


@pytest.fixture(scope="module", params=[True, False])
def compiled_score(request):
    values, h, w, b = T.matrix(), T.matrix(), T.matrix(), T.vector()
    scored = score_layer(values, h, w, b, residual=request.param)
    outputs = [v for v in scored if v is not None]
    return request.param, function([values, h, w, b], outputs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("repeats", [1, 3])
def test_score_layer_equals_reference(compiled_score, shape, repeats):
    residual, run = compiled_score
    n, inputs, units = shape
    values, h = binary(n, units), binary(n * repeats, inputs)
    w, b = normal(inputs, units, scale=2), normal(units)
    found = run(values, h, w, b)
    expected = reference(ScoreLayer(residual), values, h, w, b)
    assert found[0] == pytest.approx(expected[0], rel=2e-6, abs=1e-5)
    if residual:
        assert found[1] == pytest.approx(expected[1], abs=1e-5)


@pytest.mark.parametrize("logit", [-1e4, -88.0, -50.0, -1e-6, 0.0, 1e-6, 50.0, 88.0, 1e4])
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_extreme_logits_are_exact(logit, value):
    a, v = T.matrix(), T.matrix()
    run = function([v, a], list(score_layer(v, a, residual=True)))
    log_p, residual = run(np.full((1, 3), value, np.float32), np.full((1, 3), logit, np.float32))
    wide = float(np.float32(logit))
    assert log_p[0] == pytest.approx(
        3 * (np.float32(value) * wide - np.logaddexp(0, wide)), rel=1e-6, abs=1e-7
    )
    exact = np.exp(-np.logaddexp(0, -wide)) - np.float32(value)
    assert residual[0] == pytest.approx([exact] * 3, rel=1e-6, abs=1e-7)


def test_long_rows_keep_their_precision():
    """The product trick holds over thousands of units of any size."""
    logits = normal(3, 5000, scale=0.01)
    logit, v = T.matrix(), T.matrix()
    found = function([v, logit], score_layer(v, logit).log_p)(np.zeros_like(logits), logits)
    assert found == pytest.approx(-np.logaddexp(0, logits.astype(float)).sum(axis=1), rel=1e-6)


def test_rows_that_are_not_contiguous_are_read_rightly():
    values, logits = binary(6, 4), normal(6, 4)
    logit, v = T.matrix(), T.matrix()
    run = function([v, logit], score_layer(v, logit).log_p)
    plain = run(values, logits)
    strided = run(np.asfortranarray(values), np.repeat(logits, 2, axis=1)[:, ::2])
    assert np.array_equal(plain, strided)


@pytest.mark.parametrize(
    ("rows", "inputs", "units"), [(1, 1, 1), (8, 5, 3), (1300, 20, 37), (600, 150, 90)]
)
def test_weighted_gradient_equals_reference(rows, inputs, units):
    a, r, w = T.matrix(), T.matrix(), T.vector()
    run = function([a, r, w], list(weighted_gradient(a, r, w)))
    arrays = normal(rows, inputs), normal(rows, units), normal(rows)
    for found, wide in zip(
        run(*arrays), reference(WeightedGradient(), *(v.astype(np.float64) for v in arrays))
    ):
        assert found == pytest.approx(wide, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize(("n", "units", "repeats"), [(1, 1, 1), (9, 17, 4), (100, 40, 10)])
def test_summed_residual_equals_reference(n, units, repeats):
    m, s, w = T.matrix(), T.matrix(), T.vector()
    run = function([m, s, w], summed_residual(m, s, w))
    arrays = (
        RNG.random((n, units)).astype(np.float32),
        binary(n * repeats, units),
        normal(n * repeats),
    )
    assert run(*arrays) == pytest.approx(reference(SummedResidual(), *arrays)[0], abs=1e-5)


@pytest.mark.parametrize("shape", [(5,), (40, 33)])
@pytest.mark.parametrize(("proximal", "averaged"), [(False, False), (True, True)])
def test_adam_equals_reference_over_many_steps(shape, proximal, averaged):
    start = normal(*shape)
    zeros = [np.zeros_like(start) for _ in range(2 + averaged)]
    state = [shared(a) for a in (start.copy(), *zeros)]
    g, rate = T.TensorType("float32", (False,) * len(shape))(), T.scalar()
    settings = {"average_weight": 0.3, "l1": 0.01, "l2": 0.02, "proximal": proximal}
    step = function(
        [g, rate], [], updates=list(zip(state, adam_update(state, g, rate, **settings)))
    )
    expected = [start.astype(np.float64), *(np.zeros(shape) for _ in range(2 + averaged))]
    for t in range(1, 30):
        gradient = normal(*shape)
        at = 0.01 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        step(gradient, np.float32(at))
        expected = reference(
            AdamUpdate(proximal, averaged),
            *expected,
            gradient.astype(np.float64),
            np.float64(at),
            0.3,
            0.01,
            0.02,
        )
    for found, wide in zip(state, expected):
        assert found.get_value() == pytest.approx(wide, rel=1e-4, abs=1e-5)


def test_adams_epsilon_decides_where_gradients_are_tiny():
    """With g = 1e-8 a first step has m / (sqrt(v) + epsilon) = 0.1 g / (0.0316 g + epsilon)."""
    state = [shared(np.zeros(3, np.float32)) for _ in range(3)]
    g = T.vector(dtype="float32")
    step = function([g], [], updates=list(zip(state, adam_update(state, g, np.float32(1)))))
    step(np.full(3, 1e-8, np.float32))
    wanted = -1e-9 / (np.sqrt(0.001) * 1e-8 + 1e-8)
    assert state[0].get_value() == pytest.approx(np.full(3, wanted), rel=1e-4)


@pytest.mark.parametrize(("inputs", "units"), [(1, 1), (7, 5), (60, 70)])
@pytest.mark.parametrize(("proximal", "averaged"), [(False, True), (True, False)])
def test_centred_adam_equals_reference_over_many_steps(inputs, units, proximal, averaged):
    start = [normal(inputs, units), normal(units)]
    state = [
        [shared(a) for a in [value.copy(), *(np.zeros_like(value) for _ in range(2 + averaged))]]
        for value in start
    ]
    gradient, bias_gradient, centre, rate = T.matrix(), T.vector(), T.vector(), T.scalar()
    new = centred_adam_update(
        *state,
        (gradient, bias_gradient, centre),
        rate,
        average_weight=0.3,
        l1=0.01,
        l2=0.02,
        proximal=proximal,
    )
    step = function(
        [gradient, bias_gradient, centre, rate], [], updates=list(zip([*state[0], *state[1]], new))
    )
    expected = [variable.get_value().astype(np.float64) for part in state for variable in part]
    op = CentredAdamUpdate(proximal, averaged)
    for _ in range(20):
        given = normal(inputs, units), normal(units), RNG.random(inputs).astype(np.float32)
        step(*given, np.float32(0.02))
        expected = reference(
            op, *expected, *(a.astype(np.float64) for a in given), 0.02, 0.3, 0.01, 0.02
        )
    for found, wide in zip([*state[0], *state[1]], expected):
        assert found.get_value() == pytest.approx(wide, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (300, 50), (2000, 150)])
def test_column_means_equal_reference(rows, columns):
    a = T.matrix()
    values = normal(rows, columns)
    found = function([a], column_means(a))(values)
    assert found == pytest.approx(values.mean(axis=0, dtype=np.float64), abs=1e-5)


def test_shapes_are_inferred():
    x, w, b = T.matrix(), T.matrix(), T.vector()
    drawn = sample_layer(x, w, b, repeats=3, seed=0, counter=0, mean=True)
    scored = score_layer(x, drawn.sample, w.T, T.zeros_like(x[0]), residual=True)
    shapes = function([x, w, b], [v.shape for v in (*drawn, *scored) if v is not None])
    found = [tuple(s) for s in shapes(normal(4, 6), normal(6, 5), normal(5))]
    assert found == [(12, 5), (12,), (4, 5), (12,), (12, 6)]


def test_shapes_that_do_not_fit_are_refused():
    v, h, w, b = T.matrix(), T.matrix(), T.matrix(), T.vector()
    run = function([v, h, w, b], score_layer(v, h, w, b).log_p)
    with pytest.raises(ValueError, match="do not fit|mismatch|aligned|shapes"):
        run(binary(2, 4), binary(2, 3), normal(5, 4), normal(4))


THREADS = """
import numpy as np, sys
from bihm_repro.engine.symbolic import T, function
from bihm_repro.ops.bernoulli import sample_layer
from bihm_repro.ops.gradients import weighted_gradient
x, w, weight = T.matrix(), T.matrix(), T.vector()
drawn = sample_layer(x, w, T.zeros_like(w[0]), repeats=4, seed=3, counter=8, residual=True)
gradients = weighted_gradient(drawn.sample, drawn.residual, weight)
run = function([x, w, weight], [drawn.sample, drawn.log_q, *gradients])
rng = np.random.default_rng(0)
for density in (0.1, 0.6):
    for shift in (0, -2):
        given = (rng.random((500, 70)) < density, rng.normal(size=(70, 300)) + shift / 4,
                 rng.random(2000))
        for found in run(*(value.astype(np.float32) for value in given)):
            sys.stdout.buffer.write(found.astype(np.float32).tobytes())
"""


def test_the_number_of_threads_does_not_change_a_bit():
    answers = []
    for threads in ("1", "2", "3"):
        environment = {**os.environ, "OMP_NUM_THREADS": threads}
        answers.append(
            subprocess.run(
                [sys.executable, "-c", THREADS], env=environment, capture_output=True, check=True
            ).stdout
        )
    assert len(answers[0]) == 4 * 4 * (2000 * 300 + 2000 + 300 * 300 + 300)
    assert answers[0] == answers[1] == answers[2]

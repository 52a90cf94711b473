"""JAX forms of the fused Ops and random numbers against numpy: bits exactly, floats to rounding."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.engine.symbolic import T
from bihm_repro.ops import random_numbers
from bihm_repro.ops.activations import Tanh
from bihm_repro.ops.adam import AdamUpdate, CentredAdamUpdate
from bihm_repro.ops.affine import Affine
from bihm_repro.ops.bernoulli import SampleLayer, ScoreLayer
from bihm_repro.ops.gradients import SummedResidual, WeightedGradient
from bihm_repro.ops.normal import StandardNormal
from bihm_repro.ops.total_variation import TotalVariationGradient

jax = pytest.importorskip("jax", reason="JAX is not in this environment")
from bihm_repro.ops import jax_random_numbers  # noqa: E402 - needs JAX

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def with_64_bit_types():
    """JAX as the engine uses it."""
    with jax.enable_x64(True):
        yield


def reference(op, *inputs):
    """What ``perform`` computes."""
    node = op.make_node(*[T.as_tensor_variable(np.asarray(i)) for i in inputs])
    storage = [[None] for _ in node.outputs]
    op.perform(node, [np.array(i) for i in inputs], storage)
    return [cell[0] for cell in storage]


def in_jax(op, *inputs):
    """What ``jax_form`` computes, compiled."""
    counts = tuple(i % len(inputs) for i in op.counts)
    outputs = jax.jit(op.jax_form, static_argnums=counts)(*inputs)
    return [np.asarray(v) for v in (outputs if isinstance(outputs, tuple) else (outputs,))]


def normal(*shape, scale=1.0):
    return (RNG.normal(size=shape) * scale).astype(np.float32)


def binary(*shape):
    return (RNG.random(shape) < 0.4).astype(np.float32)


@pytest.mark.parametrize("bits_64", [True, False])
def test_random_bits_are_those_of_numpy(bits_64):
    """For every seed and draw below 2**31, JAX's 64-bit types may be off."""
    with jax.enable_x64(bits_64):
        bits = jax.jit(jax_random_numbers.random_bits, static_argnums=(2, 3))
        for seed, draw in ((0, 0), (1, 2), (2**31 - 1, 12_345_678)):
            expected = random_numbers.random_bits(seed, draw, 40, 100)
            assert np.array_equal(bits(seed, draw, 40, 100), expected)
        for columns in (1, 8, 17):
            expected = random_numbers.random_bits(5, 6, 3, columns)
            assert np.array_equal(bits(5, 6, 3, columns), expected)


def test_numbers_beyond_32_bits_are_not_cut():
    seed, draw = 2**40 + 5, 2**33 + 1
    found = jax_random_numbers.uniform(np.int64(seed), np.int64(draw), 4, 20)
    assert found.dtype == np.float32
    assert np.array_equal(found, random_numbers.uniform(seed, draw, 4, 20))


@pytest.mark.parametrize(
    ("options", "repeats"), [((True, False), 1), ((False, True), 5), ((False, False), 5)]
)
def test_sample_layer(options, repeats):
    x, w, b = binary(12, 20), normal(20, 37, scale=0.3), normal(37)
    for op, arrays in (
        (SampleLayer(*options), (x, w, b)),
        (SampleLayer(*options), (x @ w + b,)),
    ):
        expected = reference(op, *arrays, repeats, 77, 9)
        found = in_jax(op, *arrays, repeats, 77, 9)
        assert [f.shape for f in found] == [e.shape for e in expected]
        assert all(f.dtype == np.float32 for f in found)
        assert np.array_equal(found[0], expected[0])
        for f, e in zip(found[1:], expected[1:]):
            assert f == pytest.approx(e, rel=1e-5, abs=2e-6)


def test_affine():
    arrays = binary(12, 20), normal(20, 37), normal(37)
    assert in_jax(Affine(), *arrays)[0] == pytest.approx(
        reference(Affine(), *arrays)[0], rel=1e-5, abs=2e-6
    )


@pytest.mark.parametrize("residual", [False, True])
def test_score_layer(residual):
    values, h, w, b = binary(4, 30), binary(12, 20), normal(20, 30), normal(30)
    for op, arrays in (
        (ScoreLayer(residual), (h, w, b)),
        (ScoreLayer(residual), (h @ w + b,)),
    ):
        expected, found = reference(op, values, *arrays), in_jax(op, values, *arrays)
        assert len(found) == len(expected)
        for f, e in zip(found, expected):
            assert f.dtype == np.float32 and f == pytest.approx(e, rel=1e-5, abs=2e-6)


def test_log_probabilities_are_right_to_two_bits_for_logits_of_any_size():
    """One unit a row, so that nothing averages out."""
    logits = np.concatenate([np.linspace(-40, 40, 4001), [-1e-6, 0, 1e-6]]).astype(np.float32)
    for value in (0.0, 1.0):
        (found,) = in_jax(
            ScoreLayer(False), np.full((len(logits), 1), value, np.float32), logits[:, None]
        )
        wide = logits.astype(np.float64)
        expected = value * wide - np.logaddexp(wide, 0)
        assert np.max(np.abs(found - expected) / (1 + np.abs(wide))) < 2.0**-22


def test_extreme_logits_are_finite_and_right():
    logits = np.array([[80.0, -80.0, 500.0, -500.0, 0.0]], np.float32)
    ones = np.ones_like(logits)
    log_p, residual = in_jax(ScoreLayer(True), ones, logits)
    assert log_p == pytest.approx(-580 - np.log(2), rel=1e-6)
    assert residual == pytest.approx(np.array([[0, -1, 0, -1, -0.5]]), abs=1e-6)
    sample = in_jax(SampleLayer(False, False), logits, 200, 3, 4)[0]
    assert np.array_equal(sample[:, :4], np.tile([1, 0, 1, 0], (200, 1)))


def test_tanh():
    x = normal(12, 30, scale=3.0)
    assert in_jax(Tanh(), x)[0] == pytest.approx(reference(Tanh(), x)[0], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("shape", [(5, 6), (6, 5), (1, 30)])
def test_total_variation(shape):
    op, images = TotalVariationGradient(), normal(12, 30)
    expected, found = reference(op, images, *shape)[0], in_jax(op, images, *shape)[0]
    assert found.dtype == np.float32 and found == pytest.approx(expected, rel=1e-5, abs=2e-6)


def test_gradients():
    a, r, weight = binary(60, 7), normal(60, 5), normal(60)
    for f, e in zip(
        in_jax(WeightedGradient(), a, r, weight), reference(WeightedGradient(), a, r, weight)
    ):
        assert f == pytest.approx(e, rel=1e-5, abs=1e-5)
    mean, sample = np.abs(normal(12, 9)), binary(60, 9)
    (found,) = in_jax(SummedResidual(), mean, sample, weight)
    (expected,) = reference(SummedResidual(), mean, sample, weight)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("proximal", "averaged"), [(False, False), (True, True)])
def test_adam_returns_new_arrays_and_leaves_the_old_ones(centred, proximal, averaged):
    op = (CentredAdamUpdate if centred else AdamUpdate)(proximal, averaged)
    given = [normal(6, 5), normal(6, 5), np.abs(normal(6, 5)), *[normal(6, 5)] * averaged]
    if centred:
        given += [normal(5), normal(5), np.abs(normal(5)), *[normal(5)] * averaged]
    given += [normal(6, 5), *([normal(5), normal(6)] if centred else [])]
    given[0][0, 0] = 0.0  # where L1 has no direction
    scalars = [np.float32(v) for v in (0.01, 0.4, 0.3, 0.2)]
    before = [array.copy() for array in given]
    found = in_jax(op, *given, *scalars)
    assert all(np.array_equal(a, b) for a, b in zip(given, before))
    expected = reference(op, *given, *scalars)
    for f, e in zip(found, expected):
        assert f.dtype == np.float32 and f == pytest.approx(e, rel=1e-5, abs=1e-6)


def test_standard_normal():
    like = np.zeros((5, 2), np.float32)
    for units in (9, 40):
        (found,) = in_jax(StandardNormal(), like, units, 3, 9, 11)
        (expected,) = reference(StandardNormal(), like, units, 3, 9, 11)
        assert found.dtype == np.float32
        np.testing.assert_array_max_ulp(found, expected, maxulp=1)

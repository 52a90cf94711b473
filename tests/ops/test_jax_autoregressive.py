"""JAX forms of the autoregressive and annealing Ops against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.engine.symbolic import T
from bihm_repro.ops.adam import CentredAdamUpdate
from bihm_repro.ops.annealing import AnnealedWeights
from bihm_repro.ops.autoregressive import NadeGradient, SampleDarn, SampleNade, ScoreDarn, ScoreNade

jax = pytest.importorskip("jax", reason="JAX is not in this environment")

RNG = np.random.default_rng(0)
N, UNITS, HIDDEN = 5, 21, 6


@pytest.fixture(autouse=True)
def with_64_bit_types():
    """JAX as the engine uses it."""
    with jax.enable_x64(True):
        yield


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def binary(*shape):
    return (RNG.random(shape) < 0.4).astype(np.float32)


def both(op, *inputs):
    """What ``perform`` computes, and what ``jax_form`` does, compiled."""
    node = op.make_node(*[T.as_tensor_variable(np.asarray(i)) for i in inputs])
    storage = [[None] for _ in node.outputs]
    op.perform(node, [np.array(i) for i in inputs], storage)
    counts = tuple(i % len(inputs) for i in op.counts)
    outputs = jax.jit(op.jax_form, static_argnums=counts)(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    assert len(outputs) == len(storage)
    return [cell[0] for cell in storage], [np.asarray(v) for v in outputs]


def assert_equal(found):
    for expected, value in zip(*found):
        assert value.dtype == expected.dtype
        assert value == pytest.approx(expected, rel=1e-4, abs=1e-4)


DARN = normal(N, UNITS), np.triu(normal(UNITS, UNITS), 1)
NADE = normal(N, UNITS), normal(N, HIDDEN), normal(UNITS, HIDDEN), normal(UNITS, HIDDEN)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize(("op", "arrays"), [(SampleDarn, DARN), (SampleNade, NADE)])
def test_samples(op, arrays, residual):
    assert_equal(both(op(residual), *arrays, 3, 7, 11))


@pytest.mark.parametrize("rows", [N, 3 * N, 1])
@pytest.mark.parametrize(("op", "arrays"), [(ScoreDarn, DARN), (ScoreNade, NADE)])
def test_scores(op, arrays, rows):
    assert_equal(both(op(True), binary(rows, UNITS), *arrays))


@pytest.mark.parametrize("rows", [N, 3 * N])
def test_nade_gradient(rows):
    assert_equal(both(NadeGradient(), binary(rows, UNITS), *NADE[1:], normal(rows, UNITS)))


def test_triangular_weights():
    weights = [normal(UNITS + 2, UNITS), normal(UNITS + 2, UNITS), normal(UNITS + 2, UNITS) ** 2]
    bias = [normal(UNITS), normal(UNITS), normal(UNITS) ** 2]
    scalars = [np.float32(v) for v in (0.01, 0.0, 0.1, 0.0)]
    assert_equal(
        both(
            CentredAdamUpdate(False, False, 2),
            *weights,
            *bias,
            normal(UNITS + 2, UNITS),
            normal(UNITS),
            normal(UNITS + 2),
            *scalars,
        )
    )


def test_annealing():
    w, b, c = (0.3 * normal(*s) for s in ((9, 4), (9,), (4,)))
    assert_equal(both(AnnealedWeights(), w, w.T, b, c, 6, 5, 3, 2))

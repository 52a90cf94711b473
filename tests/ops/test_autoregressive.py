"""Autoregressive Ops: C against the numpy reference, and the reference against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.engine.symbolic import T, function
from bihm_repro.ops.autoregressive import NadeGradient, SampleDarn, SampleNade, ScoreDarn, ScoreNade
from bihm_repro.ops.random_numbers import uniform

RNG = np.random.default_rng(0)
# (rows of base, units, hidden): around the widths of vectors and slices.
SHAPES = [(1, 1, 1), (5, 7, 3), (3, 17, 32), (20, 40, 45)]


def normal(*shape, scale=1.0):
    return (RNG.normal(size=shape) * scale).astype(np.float32)


def binary(*shape):
    return (RNG.random(shape) < 0.4).astype(np.float32)


def arrays_of(kind, n, units, hidden):
    """(base, A) of a DARN layer, (base, start, R, V) of a NADE layer."""
    if kind == "darn":
        return normal(n, units), np.triu(normal(units, units), 1)
    return normal(n, units), normal(n, hidden), normal(units, hidden), normal(units, hidden)


def logits_by_definition(kind, values, base, *arrays):
    """The formulas of the module's docstring, row by row and unit by unit, in float64."""
    values, base, *arrays = (np.asarray(v, np.float64) for v in (values, base, *arrays))
    logits = np.empty((len(values), values.shape[1]))
    for row, v in enumerate(values):
        for i in range(len(v)):
            if kind == "darn":
                more = sum(v[k] * arrays[0][k, i] for k in range(i))
            else:
                start, into, out = arrays
                inputs = start[row] + sum(v[k] * into[k] for k in range(i))
                more = out[i] @ (1 / (1 + np.exp(-inputs)))
            logits[row, i] = base[row, i] + more
    return logits


def reference(op, *inputs):
    node = op.make_node(*[T.as_tensor_variable(np.asarray(i)) for i in inputs])
    storage = [[None] for _ in node.outputs]
    op.perform(node, [np.array(i) for i in inputs], storage)
    return [cell[0] for cell in storage]


SAMPLE, SCORE = {"darn": SampleDarn, "nade": SampleNade}, {"darn": ScoreDarn, "nade": ScoreNade}


@pytest.fixture(scope="module", params=["darn", "nade"])
def compiled(request):
    """The kind of layer, and its sampler and scorer in C, with residuals."""
    kind = request.param
    arrays = [T.matrix() for _ in range(2 if kind == "darn" else 4)]
    values, repeats, draw = T.matrix(), T.lscalar(), T.lscalar()
    sample = function([*arrays, repeats, draw], SAMPLE[kind](True)(*arrays, repeats, 77, draw))
    score = function([values, *arrays], SCORE[kind](True)(values, *arrays))
    return kind, sample, score


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("repeats", [1, 6])
def test_sampler_equals_reference_and_scorer(compiled, shape, repeats):
    kind, sample, score = compiled
    arrays = arrays_of(kind, *shape)
    found = sample(*arrays, repeats, 9)
    expected = reference(SAMPLE[kind](True), *arrays, repeats, 77, 9)
    same = (found[0] == expected[0]).all(axis=1)
    assert same.mean() >= 0.99  # a draw may meet a rounded probability
    for mine, theirs in zip(found[1:], expected[1:]):
        assert mine[same] == pytest.approx(theirs[same], rel=1e-4, abs=1e-4)
    log_p, residual = score(found[0], *arrays)
    assert log_p == pytest.approx(found[1], rel=1e-4, abs=1e-4)
    assert residual == pytest.approx(found[2], abs=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [(1, 1), (3, 1), (1, 3)])
def test_scorer_equals_its_definition(compiled, shape, rows):
    """Rows of values may serve several rows of the inputs, and the other way round."""
    kind, _, score = compiled
    n, units, hidden = shape
    per_base, per_value = rows
    values, arrays = binary(n * per_base, units), arrays_of(kind, n * per_value, units, hidden)
    log_p, residual = score(values, *arrays)
    per_row = [np.repeat(v, per_base, axis=0) for v in arrays[: -1 if kind == "darn" else -2]]
    wide = np.repeat(values, per_value, axis=0)
    logits = logits_by_definition(kind, wide, *per_row, *arrays[len(per_row) :])
    exact = (wide * logits - np.logaddexp(0, logits)).sum(axis=1)
    assert log_p == pytest.approx(exact, rel=1e-4, abs=1e-4)
    assert residual == pytest.approx(1 / (1 + np.exp(-logits)) - wide, abs=1e-4)
    for found, slow in zip((log_p, residual), reference(SCORE[kind](True), values, *arrays)):
        assert found == pytest.approx(slow, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("kind", ["darn", "nade"])
def test_reference_draws_each_unit_from_its_conditional(kind):
    """v_i = [u_i < s(logit_i)], with the logits that the drawn units before it give."""
    arrays = arrays_of(kind, 50, 9, 4)
    sample = reference(SAMPLE[kind](False), *arrays, 1, 3, 2)[0]
    probability = 1 / (1 + np.exp(-logits_by_definition(kind, sample, *arrays)))
    assert np.array_equal(sample, uniform(3, 2, 50, 9) < probability)
    assert 0.2 < sample.mean() < 0.8


@pytest.fixture(scope="module")
def compiled_gradient():
    inputs = [T.matrix() for _ in range(5)]
    return function(inputs, NadeGradient()(*inputs))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [(1, 1), (3, 1), (1, 3)])
def test_nade_gradient_equals_reference(compiled_gradient, shape, rows):
    n, units, hidden = shape
    _, start, into, out = arrays_of("nade", n * rows[1], units, hidden)
    values, d = binary(n * rows[0], units), normal(n * max(rows), units)
    found = compiled_gradient(values, start, into, out, d)
    expected = reference(NadeGradient(), values, start, into, out, d)
    for mine, theirs in zip(found, expected):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=2e-4)


def test_nade_gradient_is_the_slope_of_the_logits():
    """d . logits moves along the gradients of R, V and start as finite differences say."""
    base, start, into, out = (v.astype(np.float64) for v in arrays_of("nade", 6, 5, 4))
    values, d = binary(6, 5).astype(np.float64), normal(6, 5).astype(np.float64)
    found = reference(NadeGradient(), values, start, into, out, d)
    for index, gradient in zip((1, 2, 0), found):
        arrays = [start, into, out]
        slopes = np.empty_like(arrays[index])
        for at in np.ndindex(*slopes.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [v.copy() for v in arrays]
                moved[index][at] += step
                ends.append((d * logits_by_definition("nade", values, base, *moved)).sum())
            slopes[at] = (ends[0] - ends[1]) / 2e-6
        assert np.abs(slopes).max() > 0.1
        assert gradient == pytest.approx(slopes, abs=1e-7)


def test_shapes_that_do_not_fit_are_refused(compiled):
    kind, sample, score = compiled
    arrays = arrays_of(kind, 4, 6, 3)
    with pytest.raises(ValueError, match="do not fit"):
        sample(*arrays[:-1], arrays[-1][:-1], 1, 0)
    with pytest.raises(ValueError, match="do not fit"):
        score(binary(3, 6), *arrays)

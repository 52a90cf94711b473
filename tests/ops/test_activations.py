"""The hyperbolic tangent: numpy's to rounding, its gradient, whole rows and their remainders."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.engine.symbolic import T, function, grad
from bihm_repro.ops.activations import tanh


@pytest.fixture(scope="module")
def compiled():
    x = T.matrix("x", dtype="float32")
    return function([x], tanh(x))


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 5), (2, 8), (300, 201)])
def test_values_are_those_of_numpy(compiled, shape):
    """To three units in the last place, relative to the value, from 1e-6 to saturation."""
    rng = np.random.default_rng(0)
    x = rng.choice([-1, 1], shape) * np.exp(rng.uniform(np.log(1e-6), np.log(30), shape))
    found = compiled(x.astype(np.float32))
    expected = np.tanh(x.astype(np.float32).astype(np.float64)).astype(np.float32)
    assert found.dtype == np.float32
    np.testing.assert_array_max_ulp(found, expected, maxulp=3)


def test_the_ends(compiled):
    """Zero, both infinities and what overflows an exponential; NaN stays visible."""
    found = compiled(np.array([[0, np.inf, -np.inf, 200, -200, np.nan]], dtype=np.float32))[0]
    assert np.array_equal(found[:5], [0, 1, -1, 1, -1])
    assert np.isnan(found[5])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_is_one_minus_the_square(dtype):
    x = T.matrix("x", dtype=dtype)
    values = np.linspace(-3, 3, 20, dtype=dtype).reshape(4, 5)
    weight = np.arange(20, dtype=dtype).reshape(4, 5)
    found = function([x], grad(T.sum(weight * tanh(x)), x))(values)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, weight * (1 - np.tanh(values) ** 2), rtol=1e-5, atol=1e-6)

"""Normal numbers: C equals numpy, the distribution is right, each counter has its own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bihm_repro.engine.symbolic import T, function
from bihm_repro.ops.normal import standard_normal
from bihm_repro.ops.random_numbers import normal


def test_compiled_numbers_are_those_of_the_reference():
    """The same bits but for one last digit, whatever part of sixteen columns is asked for."""
    like, counter, units = T.matrix("like", dtype="float32"), T.lscalar(), T.lscalar()
    sample = standard_normal(like, units, repeats=3, seed=9, counter=counter)
    run = function([like, units, counter], sample)
    for columns in (1, 7, 8, 9, 16, 40):
        found = run(np.zeros((5, 2), np.float32), columns, 11)
        assert found.dtype == np.float32 and found.shape == (15, columns)
        np.testing.assert_array_max_ulp(found, normal(9, 11, 15, columns), maxulp=1)
    with pytest.raises(ValueError, match="counts do not fit"):
        run(np.zeros((5, 2), np.float32), 0, 11)


def test_double_precision_holds_the_same_numbers():
    """A float64 model sees the numbers of a float32 model."""
    like = T.matrix("like", dtype="float64")
    found = function([like], standard_normal(like, 4, seed=1, counter=2))(np.zeros((3, 1)))
    assert found.dtype == np.float64
    assert np.array_equal(found, normal(1, 2, 3, 4))


def test_distribution_is_standard_normal():
    """Kolmogorov-Smirnov on 100,000 numbers; a scale off by 3% would be refused."""
    values = normal(3, 0, 1000, 100).ravel()
    assert stats.kstest(values, "norm").pvalue > 1e-3
    assert stats.kstest(1.03 * values, "norm").pvalue < 1e-3


def test_pairs_columns_rows_and_counters_are_uncorrelated():
    """Both numbers of a pair, neighbours and other draws: correlations within 4.5 errors."""
    a, b = normal(3, 0, 4000, 32), normal(3, 1, 4000, 32)
    correlation = np.corrcoef(np.hstack([a, b]).T)
    limit = 4.5 / np.sqrt(4000)
    assert np.abs(correlation[np.triu_indices(64, 1)]).max() < limit
    assert np.abs(np.corrcoef(a[:-1].T, a[1:].T)[:32, 32:]).max() < limit
    squares = np.corrcoef((a**2).T)
    assert np.abs(squares[np.triu_indices(32, 1)]).max() < limit

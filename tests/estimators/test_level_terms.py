"""The terms of the bound, level by level, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from exact import random_parameters, states

from bihm_repro.estimators.level_terms import level_gaps, level_terms
from bihm_repro.samplers.helmholtz import HelmholtzSampler

SIZES = (4, 3, 2)


def log_bernoulli(values, logits):
    return (values * logits - np.logaddexp(0, logits)).sum(-1)


def exact_terms(values, x):
    """The three terms for one row x, by summing over all 2^5 states of h1 and h2."""
    total = np.zeros(3)
    for h1 in states(3):
        for h2 in states(2):
            log_q1 = log_bernoulli(h1, x @ values["q0.W"] + values["q0.b"])
            log_q2 = log_bernoulli(h2, h1 @ values["q1.W"] + values["q1.b"])
            terms = (
                log_bernoulli(x, h1 @ values["p0.W"] + values["p0.b"]),
                log_bernoulli(h1, h2 @ values["p1.W"] + values["p1.b"]) - log_q1,
                log_bernoulli(h2, values["p2.b"]) - log_q2,
            )
            total += np.exp(log_q1 + log_q2) * np.array(terms)
    return total


@pytest.fixture
def values():
    return random_parameters(SIZES, 3)


def test_terms_are_those_of_enumeration(values):
    rows = states(4)[[0, 5, 10, 15]]
    expected = np.mean([exact_terms(values, row) for row in rows], axis=0)
    found = level_terms(HelmholtzSampler(values), np.repeat(rows, 500, axis=0), 20, seed=1)
    # Errors over rows hold the spread between the four patterns too: draws alone are much closer.
    for level, value in enumerate([*expected, expected.sum()]):
        assert found[level].value == pytest.approx(value, abs=0.02), level


def test_the_error_is_that_of_the_mean_over_rows(values):
    model = HelmholtzSampler(values)
    rows = np.repeat(states(4), 20, axis=0)
    means = [[t.value for t in level_terms(model, rows, 1, seed)] for seed in range(60)]
    same = np.repeat(states(4)[:1], 320, axis=0)
    spread = np.std([level_terms(model, same, 1, seed)[-1].value for seed in range(60)], ddof=1)
    assert level_terms(model, same, 1)[-1].standard_error == pytest.approx(spread, rel=0.35)
    assert np.allclose(np.sum([m[:-1] for m in means], axis=1), [m[-1] for m in means])


def test_gaps_are_differences(values):
    first, second = states(4)[:8], states(4)[8:]
    for level in level_gaps(HelmholtzSampler(values), first, second):
        assert level.gap.value == pytest.approx(level.first.value - level.second.value)
        squares = level.first.standard_error**2 + level.second.standard_error**2
        assert level.gap.standard_error == pytest.approx(np.sqrt(squares))


def test_more_rows_than_a_block(values):
    model = HelmholtzSampler(values)
    many = np.repeat(states(4), 150, axis=0)
    (few, lots) = (level_terms(model, rows, 4)[-1] for rows in (many[::3], many))
    assert lots.value == pytest.approx(few.value, abs=5 * few.standard_error)
    assert lots.standard_error == pytest.approx(few.standard_error / np.sqrt(3), rel=0.2)

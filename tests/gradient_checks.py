"""Compares the gradients of a training graph with slopes of its objective, noise held fixed."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.engine.symbolic import T, function

__all__ = ["assert_gradients_are_slopes", "compiled"]


def compiled(model, samples, seed=5):
    """Gradients and monitors of one update as a function of x and the counter."""
    x, counter = T.matrix("x", dtype=model.dtype), T.lscalar("counter")
    graph = model.training_graph(x, samples, seed, counter)
    outputs = [graph.gradients[p] for p in model.parameters] + list(graph.monitors.values())
    # The reference in numpy needs no compiler, and a compilation would take most of the time.
    options = {"mode": "FAST_COMPILE"} if model.dtype == "float64" else {}
    run = function([x, counter], outputs, **options)

    def call(x, counter=0):
        found = run(np.asarray(x, model.dtype), counter)
        names = [p.name for p in model.parameters] + list(graph.monitors)
        return dict(zip(names, found))

    return call


def assert_gradients_are_slopes(model, call, x, objective):
    """Every gradient, against central differences of ``objective`` with the same noise."""
    found = call(x)
    for p in model.parameters:
        value, slopes = p.get_value(), np.zeros(p.get_value().shape)
        for index in np.ndindex(*value.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = value.copy()
                moved[index] += step
                p.set_value(moved)
                ends.append(float(call(x)[objective]))
            slopes[index] = -(ends[0] - ends[1]) / 2e-5
        p.set_value(value)
        assert np.abs(slopes).max() > 1e-3, p.name
        assert found[p.name] == pytest.approx(slopes, abs=2e-7), p.name

"""Active units while training: counted when due, in the log, with a warning for silent layers."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np

from bihm_repro.models.bihm import BidirectionalHelmholtzMachine
from bihm_repro.models.vae import VariationalAutoencoder
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.training.extensions.active_units import ActiveUnits, unit_counter


def after_epochs(extension, count):
    rows = []
    for epoch in range(count):
        loop = SimpleNamespace(log=SimpleNamespace(status=SimpleNamespace(epoch=epoch), row={}))
        extension.after_epoch(loop)
        rows.append(loop.log.row)
    return rows


def test_counts_are_logged_when_due_and_a_layer_that_falls_silent_is_named_once():
    counts = iter([[9, 4, 0], [8, 3, 1], [8, 0, 0], [8, 0, 0]])
    stream = io.StringIO()
    rows = after_epochs(ActiveUnits(lambda: next(counts), every=2, stream=stream), 9)
    assert [row.get("active_units") for row in rows] == [
        None,
        "9 4 0",
        None,
        "8 3 1",
        None,
        "8 0 0",
        None,
        "8 0 0",
        None,
    ]
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1 and "layer 2, 3 has no active unit any more (epoch 6)" in lines[0]


def recipe(kind="bihm", **monitor):
    return Recipe.from_dict(
        {"dataset": "own", "model": {"kind": kind, "layers": [3]}, "monitor": monitor}
    )


def test_a_unit_is_active_where_its_probability_depends_on_the_data():
    model = BidirectionalHelmholtzMachine(4, [3]).allocate().initialize(0)
    weights = np.zeros((4, 3), np.float32)
    weights[0, 1] = 5.0  # the second unit alone sees the first pixel
    model.set_values({**model.get_values(), "q0.W": weights})
    x = np.eye(4, dtype=np.float32)[[0, 0, 1, 2, 3, 0]]
    assert unit_counter(model, recipe(), x)() == [1]
    assert unit_counter(model, recipe(units_every=0), x) is None
    vae = VariationalAutoencoder(4, [3], hidden=[2]).allocate().initialize(0)
    assert unit_counter(vae, recipe("vae"), x) is None

"""NADE: exact log p, updates that raise it, samples, and the settings of its recipe."""

from __future__ import annotations

import numpy as np
import pytest
from exact import states

from bihm_repro.engine.symbolic import T, function
from bihm_repro.errors import InputError
from bihm_repro.estimators.log_likelihood import estimate_log_likelihood
from bihm_repro.models.build import build_model
from bihm_repro.models.nade import Nade
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.recipes.recipe import Phase, Recipe, TrainingRecipe
from bihm_repro.samplers.nade import NadeSampler
from bihm_repro.training.update import compile_update

UNITS = 4


@pytest.fixture(scope="module")
def trained():
    """A model of four vectors, its exact log p before and after 200 updates."""
    model = Nade(UNITS, [8]).allocate().initialize(0)
    x = T.matrix("x")
    log_p = function([x], model.exact_log_p(x))
    rows = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]], np.float32)
    before = log_p(rows).mean()
    update = compile_update(model, TrainingRecipe(l1=0.0), Phase(samples=1, learning_rate=0.05), 1)
    first = update(np.tile(rows, (5, 1)))
    for _ in range(200):
        update(np.tile(rows, (5, 1)))
    assert first["log_p"] == pytest.approx(20 * before, rel=1e-4)
    return model, log_p, rows, before


def test_updates_raise_the_exact_log_likelihood_to_its_maximum(trained):
    """Four equally likely vectors: log 1/4 each; probabilities still sum to one."""
    _, log_p, rows, before = trained
    assert before < -2.5
    assert log_p(rows) == pytest.approx(np.full(4, np.log(0.25)), abs=0.1)
    assert np.exp(log_p(states(UNITS).astype(np.float32))).sum() == pytest.approx(1, abs=1e-5)


def test_estimates_are_exact_with_any_number_of_samples(trained):
    model, log_p, rows, _ = trained
    found = estimate_log_likelihood(model, rows, (1, 30))
    for k in (1, 30):
        assert found[k].log_p == pytest.approx(log_p(rows), abs=1e-5)


def test_samples_have_the_probabilities_of_the_model(trained):
    model, log_p, _, _ = trained
    x, probabilities = NadeSampler(model.get_values()).sample(20000, RandomStream(0, "test"))
    found = np.bincount((x @ [8, 4, 2, 1]).astype(int), minlength=16) / len(x)
    p = np.exp(log_p(states(UNITS).astype(np.float32)))
    assert np.abs(found - p).max() < 4.5 * np.sqrt(0.25 * 0.75 / len(x))
    assert np.where(x, probabilities, 1 - probabilities).prod(axis=1).mean() > 0.2


def test_a_recipe_gives_the_hidden_units_in_layers():
    model = build_model(
        Recipe.from_dict({"dataset": "bars", "model": {"kind": "nade", "layers": [7]}}).model, 16
    )
    assert model.get_values()["p0.R"].shape == (16, 7)
    with pytest.raises(InputError, match="has a single layer"):
        Nade(4, [3, 2])
    with pytest.raises(InputError, match="model.p_layer"):
        Recipe.from_dict(
            {"dataset": "bars", "model": {"kind": "nade", "layers": [7], "p_layer": "darn"}}
        )

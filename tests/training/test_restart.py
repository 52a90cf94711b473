"""Dead units: found, given initial values, trained again."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.errors import InputError
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.samplers.helmholtz import HelmholtzSampler
from bihm_repro.training.extensions import Extension
from bihm_repro.training.restart import dead_units, with_restarted_units
from bihm_repro.training.session import Options, TrainingData, train

X = (np.random.default_rng(3).random((200, 6)) < 0.5).astype(np.float32)
OFF, ON, RARE = 1, 3, 2
"""Units of the first layer that are off for all rows, on for all, and on for few."""


@pytest.fixture
def model():
    return BidirectionalHelmholtzMachine(6, (5, 3), weights="glorot").allocate().initialize(1)


@pytest.fixture
def values(model):
    found = model.get_values()
    found["q0.b"][OFF], found["q0.b"][ON] = -30.0, 30.0
    found["q0.W"][:, RARE], found["q0.b"][RARE] = 0.0, -8.0
    found["q0.W"][:3, RARE] = 5.0  # on where the first two or three values are 1
    found["q1.b"][2] = -30.0
    return found


def test_units_that_never_change_are_dead_and_rare_ones_are_not(values):
    first, second = dead_units(HelmholtzSampler(values), X)
    np.testing.assert_array_equal(first, [np.nan, 0, np.nan, 1, np.nan])
    np.testing.assert_array_equal(second, [np.nan, np.nan, 0])


def test_noise_is_not_dead(values):
    """A unit that is on at random says nothing about x, but it can learn."""
    values["q0.W"][:, 0], values["q0.b"][0] = 0.0, 0.0
    assert np.isnan(dead_units(HelmholtzSampler(values), X)[0][0])


def test_a_restart_takes_initial_values_and_moves_what_was_always_on_to_the_biases(values):
    stuck_at = dead_units(HelmholtzSampler(values), X)
    initial = {name: np.zeros_like(value) for name, value in values.items()}
    new = with_restarted_units(values, initial, stuck_at)
    rng = np.random.default_rng(0)
    upper = (rng.random((50, 3)) < 0.5).astype(np.float32)
    old_h = (rng.random((50, 5)) < 0.5).astype(np.float32)
    old_h[:, OFF], old_h[:, ON] = 0, 1
    any_h = np.where(np.isin(np.arange(5), [OFF, ON]), rng.random((50, 5)) < 0.5, old_h)
    any_h = any_h.astype(np.float32)
    old_upper = np.where(np.arange(3) == 2, 0, upper).astype(np.float32)
    before, after = HelmholtzSampler(values), HelmholtzSampler(new)
    x = before.p_given(0, old_h).probabilities(X[:50])
    np.testing.assert_allclose(after.p_given(0, any_h).probabilities(X[:50]), x, rtol=1e-5)
    kept = [0, RARE, 4]
    for found, expected in (
        (after.p_given(1, upper), before.p_given(1, old_upper)),
        (after.q_given(1, X[:50]), before.q_given(1, X[:50])),
    ):
        np.testing.assert_allclose(
            found.probabilities(old_h)[:, kept], expected.probabilities(old_h)[:, kept], rtol=1e-5
        )
        assert np.all(found.probabilities(old_h)[:, [OFF, ON]] == 0.5)
    top = after.q_given(2, any_h).probabilities(upper)
    np.testing.assert_allclose(
        top[:, :2], before.q_given(2, old_h).probabilities(upper)[:, :2], rtol=1e-5
    )
    assert np.all(top[:, 2] == 0.5) and new["p2.b"][2] == 0
    np.testing.assert_array_equal(new["p2.b"][:2], values["p2.b"][:2])


def recipe(**phase):
    first = {"samples": 3, "learning_rate": 1e-6, "max_epochs": 1}
    return Recipe.from_dict(
        {
            "dataset": "own",
            "model": {"layers": [5, 3], "weights": "glorot"},
            "training": {"batch_size": 20, "l1": 0.0, "centred": True},
            "phases": [first, {**first, "learning_rate": 0.01, "max_epochs": 3, **phase}],
            "monitor": {"test_every": 0, "units_every": 0, "checkpoint_seconds": 0},
        }
    )


DATA = TrainingData(X, X[:20], fingerprint="f")


@pytest.mark.parametrize("restart", [False, True])
def test_dead_units_learn_again_after_a_phase_has_restarted_them(model, values, restart):
    model.set_values(values)
    train(model, recipe(restart_dead=restart), DATA, options=Options(quiet=True))
    new = model.get_values()
    moved = abs(new["q0.W"] - values["q0.W"]).max(axis=0)
    assert (moved[[OFF, ON]] > 0.01).all() == restart and moved[4] > 0.005
    stuck = dead_units(HelmholtzSampler(new), X)
    assert np.isnan(stuck[0]).all() == restart and np.isnan(stuck[1]).all() == restart


class Pause(Extension):
    """Pauses after the ``at``-th update."""

    def __init__(self, at):
        self.at = at

    def after_batch(self, loop):
        if loop.log.status.updates == self.at:
            loop.log.pause = "test"


@pytest.mark.parametrize("at", [10, 11, 25])
def test_a_run_that_is_resumed_ends_as_one_that_was_not_paused(model, values, tmp_path, at):
    """Paused at the end of the phase before, after the first update of the phase, and later."""
    wanted, ends = recipe(restart_dead=True), []
    for name, steps in (("whole", [None]), ("paused", [at, None])):
        run = RunDirectory(tmp_path / name)
        run.claim(wanted)
        for step in steps:
            model.set_values(values)
            options = Options(quiet=True, extensions=() if step is None else (Pause(step),))
            train(model, wanted, DATA, run, options)
        ends.append(model.get_values())
    for name, value in ends[0].items():
        np.testing.assert_array_equal(value, ends[1][name], err_msg=name)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            {"kind": "vae"},
            "phases.1.restart_dead = true: a vae model has no layers of binary units",
        ),
        ({"p_layer": ["darn", "bernoulli"]}, r"model.p_layer = \['darn', 'bernoulli'\], and only"),
        ({"prior": "darn"}, "model.prior = 'darn', and only units of bernoulli layers"),
    ],
)
def test_models_without_layers_of_bernoulli_units_are_refused(model, message):
    content = {"dataset": "bars", "model": {"layers": [4, 2], **model}}
    with pytest.raises(InputError, match=message):
        Recipe.from_dict({**content, "phases": [{}, {"restart_dead": True}]})

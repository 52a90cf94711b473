"""The restricted Boltzmann machine against enumeration: Z, log p, gradients, training."""

from __future__ import annotations

import numpy as np
import pytest
from exact import log_sum_exp, states
from gradient_checks import assert_gradients_are_slopes, compiled
from scipy.stats import chisquare

from bihm_repro.engine.symbolic import T, function
from bihm_repro.errors import InputError
from bihm_repro.estimators.annealing import estimate_log_z
from bihm_repro.estimators.log_likelihood import estimate_log_likelihood
from bihm_repro.models.rbm import RestrictedBoltzmannMachine
from bihm_repro.ops.annealing import AnnealedWeights, annealed_log_weights
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.recipes.recipe import Phase, TrainingRecipe
from bihm_repro.samplers.rbm import RbmSampler
from bihm_repro.training.update import compile_update

VISIBLE, HIDDEN = 5, 3


def machine(dtype="float32", scale=1.5):
    model = RestrictedBoltzmannMachine(
        VISIBLE, [HIDDEN], weights="gaussian", weights_scale=scale, bias=-0.5, dtype=dtype
    )
    return model.allocate().initialize(1)


def exact_by_both_layers(model):
    """log p(x) of all x, and log Z, by a sum over both layers."""
    w, b, c = (model.get_values()[f"p0.{name}"].astype(np.float64) for name in "Wbc")
    x, h = states(VISIBLE), states(HIDDEN)
    minus_energy = x @ w @ h.T + (x @ b)[:, None] + h @ c
    log_z = log_sum_exp(minus_energy)
    return log_sum_exp(minus_energy, axis=1) - log_z, float(log_z)


def test_log_z_and_log_p_come_to_the_exact_ones():
    model = machine()
    log_p, log_z = exact_by_both_layers(model)
    found = estimate_log_z(model, chains=400, steps=50)
    assert 0 < found.standard_error < 0.1
    assert abs(found.value - log_z) < 4.5 * found.standard_error
    few = estimate_log_z(model, chains=400, steps=1)
    assert few.standard_error > 2 * found.standard_error
    x = states(VISIBLE).astype(np.float32)
    assert estimate_log_likelihood(model, x, (1,))[1].log_p == pytest.approx(log_p, abs=0.03)


@pytest.mark.parametrize("sizes", [(5, 3), (40, 17)])
def test_the_kernel_equals_the_reference(sizes):
    """A sample that meets a rounded probability makes a chain another one; few may."""
    generator = np.random.default_rng(0)
    arrays = [
        generator.normal(size=s).astype(np.float32) * 0.5 for s in (sizes, sizes[:1], sizes[1:])
    ]
    symbolic = [T.matrix(), T.vector(), T.vector()]
    log_weights, used = annealed_log_weights(*symbolic, chains=60, steps=20, seed=3, counter=7)
    assert used == 41
    found = function(symbolic, log_weights)(*arrays)
    w, b, c = arrays
    (expected,) = AnnealedWeights().reference(w, w.T, b, c, 60, 20, 3, 7)
    assert np.mean(np.abs(found - expected) < 1e-3) > 0.9
    assert np.std(found) > 0.05


def test_gradients_are_slopes_of_the_contrast_of_data_and_chains():
    model = machine("float64", scale=0.7)
    assert_gradients_are_slopes(model, compiled(model, 2), states(VISIBLE)[[3, 9, 30]], "contrast")


def test_updates_raise_the_exact_log_p_with_chains_that_go_on():
    model = RestrictedBoltzmannMachine(VISIBLE, [4]).allocate().initialize(0)
    rows = states(VISIBLE)[[0, 7, 24, 31]]
    before = exact_log_p_of(model)[[0, 7, 24, 31]].mean()
    update = compile_update(
        model, TrainingRecipe(l1=0.0, centred=True), Phase(samples=2, learning_rate=0.03), seed=1
    )
    chains = update.get_state()["rbm.chains"]
    for _ in range(400):
        update(np.tile(rows, (10, 1)))
    after = exact_log_p_of(model)[[0, 7, 24, 31]].mean()
    assert before < -3.3 and after > -2.7
    assert chains.shape == (100, VISIBLE)
    assert (update.get_state()["rbm.chains"] != chains).any()


def test_samples_have_the_exact_distribution():
    model, n = machine(scale=1.0), 4000
    x, means = RbmSampler(model.get_values()).sample(n, RandomStream(0, "test"))
    log_p, _ = exact_by_both_layers(model)
    codes = (x @ (2 ** np.arange(VISIBLE))[::-1]).astype(int)
    codes_of_states = (states(VISIBLE) @ (2 ** np.arange(VISIBLE))[::-1]).astype(int)
    found = np.bincount(codes, minlength=2**VISIBLE)[codes_of_states]
    expected = n * np.exp(log_p)
    assert chisquare(found, expected * n / expected.sum()).pvalue > 1e-3
    assert means.mean(axis=0) == pytest.approx(x.mean(axis=0), abs=4 * 0.5 / np.sqrt(n))


def exact_log_p_of(model):
    w, b, c = (model.get_values()[f"p0.{name}"].astype(np.float64) for name in "Wbc")
    x = states(VISIBLE)
    log = x @ b + np.logaddexp(0, x @ w + c).sum(axis=1)
    return log - log_sum_exp(log)


def test_one_hidden_layer_is_all():
    with pytest.raises(InputError, match="has a single layer"):
        RestrictedBoltzmannMachine(4, [3, 2])

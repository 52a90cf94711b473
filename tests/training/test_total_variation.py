"""The total variation penalty: its gradient, where it is added, and what refuses it."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.datasets.dataset import Dataset
from bihm_repro.engine.symbolic import function, shared
from bihm_repro.errors import InputError
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine
from bihm_repro.models.rbm import RestrictedBoltzmannMachine
from bihm_repro.ops.images import SMOOTHING
from bihm_repro.ops.total_variation import TotalVariationGradient, total_variation_gradient
from bihm_repro.recipes.recipe import Phase, Recipe, TrainingRecipe
from bihm_repro.training.session import Options, TrainingData, train
from bihm_repro.training.update import compile_update

SHAPE = (3, 4)
RNG = np.random.default_rng(5)
WEIGHTS = RNG.normal(0, 0.2, (5, 12)).astype(np.float32)
X = (RNG.random((6, 12)) < 0.5).astype(np.float32)


def total_variation(rows, shape=SHAPE):
    """By a loop over the pixels, in float64."""
    found = 0.0
    for image in rows.astype(np.float64).reshape(-1, *shape):
        for i, j in np.ndindex(*shape):
            for di, dj in ((1, 0), (0, 1)):
                if i + di < shape[0] and j + dj < shape[1]:
                    found += np.hypot(image[i + di, j + dj] - image[i, j], SMOOTHING)
    return found


def numerical_gradient(rows, shape=SHAPE, step=1e-5):
    found = np.zeros(rows.shape)
    for index in np.ndindex(rows.shape):
        ends = []
        for sign in (1, -1):
            moved = rows.astype(np.float64)
            moved[index] += sign * step
            ends.append(total_variation(moved, shape))
        found[index] = (ends[0] - ends[1]) / (2 * step)
    return found


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (1, 12), (12, 1), (2, 6)])
def test_the_gradient_is_that_of_a_loop_over_the_pixels(shape):
    """Compiled in float32, and numpy's in float64 (which the Op runs for other types)."""
    expected = numerical_gradient(WEIGHTS, shape)
    weights = shared(WEIGHTS, name="p0.W")
    found = function([], total_variation_gradient(weights, *shape))()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)
    (exact,) = TotalVariationGradient().reference(WEIGHTS.astype(np.float64), *shape)
    np.testing.assert_allclose(exact, expected, atol=1e-8)


def test_images_of_another_size_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        function([], total_variation_gradient(shared(WEIGHTS, name="p0.W"), 3, 5))()


@pytest.fixture(scope="module")
def model():
    return BidirectionalHelmholtzMachine(12, (5, 2)).allocate().initialize(3)


@pytest.mark.parametrize(
    ("training", "phase", "strength"),
    [({"total_variation": 0.5}, {}, 0.5), ({"total_variation": 0.5}, {"total_variation": 2.0}, 2.0),
     ({"total_variation": 0.5}, {"total_variation": 0.0}, 0.0)],
)  # fmt: skip
def test_it_is_added_to_the_gradient_of_the_pixels_weights_alone(model, training, phase, strength):
    start, ends = model.get_values(), []
    for settings, own in ((training, phase), ({}, {})):
        update = compile_update(
            model,
            TrainingRecipe(step_rule="sgd", centred=True, **settings),
            Phase(samples=5, learning_rate=0.01, **own),
            4,
            image_shape=SHAPE,
        )
        model.set_values(start)
        update(X)
        ends.append(model.get_values())
    model.set_values(start)
    for name, value in ends[0].items():
        if name == "p0.W":
            step = -0.01 * strength * numerical_gradient(start[name])
            np.testing.assert_allclose(value - ends[1][name], step, atol=2e-6)
            assert strength == 0 or np.abs(step).max() > 1e-3
        elif name != "p0.b":  # Centring: the step of the weights moves the bias as well.
            np.testing.assert_array_equal(value, ends[1][name], err_msg=name)


def test_a_strong_penalty_makes_images_smooth(model):
    start = model.get_values()
    phase = Phase(samples=5, learning_rate=0.05)
    variations = []
    for strength in (0.0, 10.0):
        model.set_values(start)
        training = TrainingRecipe(centred=True, total_variation=strength)
        update = compile_update(model, training, phase, 4, image_shape=SHAPE)
        for _ in range(300):
            update(X)
        variations.append(total_variation(model.get_values()["p0.W"]))
    model.set_values(start)
    smallest = total_variation(np.zeros((5, 12)))
    assert variations[1] - smallest < 0.2 * (variations[0] - smallest)


def test_a_recipe_has_the_shape_of_its_data_set(model):
    """Images of one column have no neighbours beside them: the shape of the data decides."""
    recipe = Recipe.from_dict(
        {
            "dataset": "own",
            "model": {"layers": [5, 2]},
            "training": {"l1": 0.0, "step_rule": "sgd", "total_variation": 0.5},
            "phases": [{"max_epochs": 1, "samples": 2, "learning_rate": 0.01}],
        }
    )
    start, ends = model.get_values(), {}
    for shape in (SHAPE, (12, 1)):
        model.set_values(start)
        splits = {name: X for name in ("train", "valid", "test")}
        data = TrainingData.of(Dataset("own", splits, "", "own", image_shape=shape))
        train(model, recipe, data, options=Options(quiet=True))
        ends[shape] = model.get_values()["p0.W"]
    model.set_values(start)
    columns = numerical_gradient(start["p0.W"], (12, 1))
    step = -0.01 * 0.5 * (numerical_gradient(start["p0.W"]) - columns)
    np.testing.assert_allclose(ends[SHAPE] - ends[12, 1], step, atol=2e-6)


def test_rows_that_are_no_images_are_refused(model):
    with pytest.raises(InputError, match="total_variation = 0.1: the rows of the data set are no"):
        compile_update(model, TrainingRecipe(total_variation=0.1), Phase(samples=2), 4)


def test_a_model_without_weights_to_the_pixels_is_refused():
    made = RestrictedBoltzmannMachine(12, [2]).allocate().initialize(0)
    training = TrainingRecipe(total_variation=0.1)
    with pytest.raises(InputError, match="no weights p0.W to the pixels"):
        compile_update(made, training, Phase(samples=1), 4, image_shape=SHAPE)

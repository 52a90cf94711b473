"""The compiled update and the metrics while training, against enumeration and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from exact import ExactModel, random_parameters, states

from bihm_repro.errors import InputError
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine
from bihm_repro.models.vae import VariationalAutoencoder
from bihm_repro.recipes.recipe import Phase, Recipe, TrainingRecipe
from bihm_repro.training.session import Options, TrainingData, train
from bihm_repro.training.update import compile_update

SIZES = (4, 3, 2)
START = random_parameters(SIZES, seed=1, scale=0.5)
X = states(4)[[3, 5, 5, 9, 14]].astype(np.float32)


@pytest.fixture(scope="module")
def model():
    made = BidirectionalHelmholtzMachine(SIZES[0], SIZES[1:]).allocate()
    made.set_values(START)
    return made


@pytest.fixture
def exact():
    return ExactModel({name: value.astype(np.float32) for name, value in START.items()})


def reset(model):
    model.set_values(START)
    return model.get_values()


def test_a_step_descends_the_gradient_of_the_sum_plus_the_penalty(model, exact):
    """With plain descent the step is the gradient: of the sum over x, biases not penalised."""
    training = TrainingRecipe(l1=0.25, step_rule="sgd")
    update = compile_update(model, training, Phase(samples=20000, learning_rate=1.0), seed=1)
    before = reset(model)
    sums = update(X)
    wanted = exact.gradient(X)
    for name, value in model.get_values().items():
        step = before[name] - value
        penalty = 0.25 * np.sign(before[name]) if name.endswith(".W") else 0.0
        total = np.asarray(wanted[name])
        total = total.sum(axis=0) if total.ndim > before[name].ndim else total
        np.testing.assert_allclose(step, penalty - total, atol=0.06, err_msg=name)
    assert sums["log_p"] == pytest.approx(exact.log_p(X).sum(), abs=0.05)
    assert sums["log_p_tilde_star"] == pytest.approx(exact.log_p_tilde_star(X).sum(), abs=0.05)


@pytest.mark.parametrize("setting", [{"sleep": 1.0}, {"l1": 0.5}])
def test_what_a_phase_sets_takes_the_place_of_what_training_has(model, setting):
    def step(training, phase):
        reset(model)
        compile_update(model, training, Phase(samples=5, **phase), seed=4)(X)
        return model.get_values()

    wanted, without = step(TrainingRecipe(**setting), {}), step(TrainingRecipe(), {})
    assert any(not np.array_equal(wanted[name], without[name]) for name in wanted)
    for name, value in step(TrainingRecipe(), setting).items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)


def test_restarted_equals_newly_compiled(model):
    training, phase = TrainingRecipe(), Phase(samples=5, learning_rate=0.02)
    update = compile_update(model, training, phase, seed=4)
    reset(model)
    for _ in range(3):
        update(X)
    assert update.counter == 3 * 2 and update.learning_rate == pytest.approx(0.02)
    once, state = model.get_values(), update.get_state()
    assert state["adam.count"] == 3 and np.abs(state["adam.first.p0.W"]).max() > 0
    reset(model)
    update.restart(0)
    for _ in range(3):
        update(X)
    for name, value in model.get_values().items():
        np.testing.assert_array_equal(value, once[name])
    update.set_state(state)
    assert update.get_state()["adam.count"] == 3


def test_an_update_keeps_running_means_where_it_is_asked_to(model):
    phase = Phase(samples=5, learning_rate=0.02, average_over=3)
    update = compile_update(model, TrainingRecipe(), phase, seed=4)
    plain = compile_update(model, TrainingRecipe(), Phase(samples=5, learning_rate=0.02), seed=4)
    assert plain.averages == {}
    for _ in range(2):
        reset(model)
        update.restart(0)
        path = [update(X) and model.get_values() for _ in range(3)]
        for name, mean in update.averages.items():
            wanted = np.mean([values[name] for values in path], axis=0)
            np.testing.assert_allclose(mean, wanted, rtol=1e-5, atol=1e-6, err_msg=name)
    assert set(update.averages) == set(path[-1])
    reset(model)
    for _ in range(3):
        plain(X)
    for name, value in model.get_values().items():
        np.testing.assert_allclose(value, path[-1][name], rtol=1e-5, atol=1e-6)


def test_many_in_one_call_are_the_same_bits_as_one_by_one(model):
    """Batches of several sizes, divided in several ways: parameters, rule, counters and metrics."""
    batches = [X, X[::-1], X[:2], X[1:], X]
    update = compile_update(model, TrainingRecipe(), Phase(samples=5, learning_rate=0.02), seed=4)
    ends = []
    for cuts in ([1, 2, 3, 4], [], [3]):
        reset(model)
        update.restart(0)
        sums = [
            metrics
            for group in np.split(np.arange(5), cuts)
            for metrics in update.steps([batches[i] for i in group])
        ]
        ends.append((sums, update.counter, {**model.get_values(), **update.get_state()}))
    assert ends[0][1] == 5 * 2 and len({tuple(f.items()) for f in ends[0][0]}) == 5
    assert np.abs(ends[0][2]["p0.W"] - START["p0.W"]).max() > 0.01
    for sums, counter, values in ends[1:]:
        assert (sums, counter) == ends[0][:2]
        for name, value in values.items():
            np.testing.assert_array_equal(value, ends[0][2][name], err_msg=name)
    reset(model)
    update.restart(0)
    assert [update(x) for x in batches] == ends[0][0]


def test_another_counter_gives_another_step(model):
    update = compile_update(model, TrainingRecipe(), Phase(samples=5), seed=4, first_counter=1000)
    reset(model)
    first = update(X)
    reset(model)
    update.restart(0)
    assert update(X) != first


CENTRED = TrainingRecipe(centred=True, l1=0.05)


@pytest.mark.parametrize(
    "phase",
    [Phase(samples=5, learning_rate=0.02), Phase(samples=5, learning_rate=0.02, average_over=2)],
)
def test_a_centred_update_goes_on_from_its_state_bit_for_bit(model, phase):
    update = compile_update(model, CENTRED, phase, seed=4)
    reset(model)
    for _ in range(2):
        update(X)
    kept = model.get_values(), update.get_state(), update.counter
    update(X[::-1])
    wanted = {**model.get_values(), **update.get_state()}
    assert np.array_equal(kept[1]["centre.q0.W"], X.mean(axis=0))
    other = compile_update(model, CENTRED, phase, seed=4)
    model.set_values(kept[0])
    other.set_state(kept[1])
    other.counter = kept[2]
    other(X[::-1])
    for name, value in {**model.get_values(), **other.get_state()}.items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)


def test_a_centred_step_of_size_zero_changes_no_parameter(model):
    update = compile_update(model, CENTRED, Phase(samples=5, learning_rate=0.0), seed=4)
    before = reset(model)
    update(X)
    for name, value in model.get_values().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_a_centred_step_moves_the_logits_at_the_mean_input_by_the_bias_step_alone(model):
    """c^T W + b changes by db: the step of the weights leaves a layer's mean response alone."""
    update = compile_update(model, CENTRED, Phase(samples=5, learning_rate=0.02), seed=4)
    plain = compile_update(
        model, TrainingRecipe(l1=0.05), Phase(samples=5, learning_rate=0.02), seed=4
    )
    before = reset(model)
    update(X)
    after, centres = model.get_values(), update.get_state()
    reset(model)
    plain(X)
    for layer in ("p0", "p1", "q0", "q1"):
        centre = centres[f"centre.{layer}.W"]
        moved = centre @ (after[f"{layer}.W"] - before[f"{layer}.W"]) + (
            after[f"{layer}.b"] - before[f"{layer}.b"]
        )
        own = model.get_values()[f"{layer}.b"] - before[f"{layer}.b"]
        np.testing.assert_allclose(moved, own, rtol=1e-4, atol=1e-6, err_msg=layer)
        assert np.abs(centre).max() > 0.1


@pytest.mark.parametrize(
    ("training", "phase", "shrunk"),
    [
        (TrainingRecipe(l1=5.0, step_rule="sgd"), {}, {"p0", "p1", "q0", "q1"}),
        (TrainingRecipe(l1=5.0, l1_levels=1, step_rule="sgd"), {}, {"p0", "q0"}),
        (TrainingRecipe(l1=5.0, l1_levels=0, step_rule="sgd"), {}, set()),
        (TrainingRecipe(l1=5.0, l1_side="q", step_rule="sgd"), {}, {"q0", "q1"}),
        (TrainingRecipe(l1=5.0, l1_side="p", l1_levels=1, step_rule="sgd"), {}, {"p0"}),
        (TrainingRecipe(l1=5.0, l1_side="p", step_rule="sgd"), {"l1_side": "q"}, {"q0", "q1"}),
        (TrainingRecipe(l1=5.0, step_rule="sgd"), {"l1_side": "p", "l1_levels": 1}, {"p0"}),
        (TrainingRecipe(l1=0.0, step_rule="sgd"), {"l1": 5.0}, {"p0", "p1", "q0", "q1"}),
        (TrainingRecipe(l1=5.0, step_rule="sgd"), {"l1": 0.0}, set()),
    ],
)
def test_l1_is_that_of_the_phase_the_side_and_the_chosen_levels(model, training, phase, shrunk):
    steps = []
    for settings, own in ((training, phase), (TrainingRecipe(l1=0.0, step_rule="sgd"), {})):
        update = compile_update(model, settings, Phase(samples=5, learning_rate=0.01, **own), 4)
        before = reset(model)
        update(X)
        steps.append({name: value - before[name] for name, value in model.get_values().items()})
    for name, step in steps[0].items():
        penalty = 0.05 * np.sign(START[name]) if name.endswith("W") and name[:2] in shrunk else 0
        np.testing.assert_allclose(step, steps[1][name] - penalty, atol=1e-5, err_msg=name)


def test_a_model_without_binary_layers_is_not_centred():
    made = VariationalAutoencoder(4, [2], hidden=[3]).allocate().initialize(0)
    with pytest.raises(InputError, match="training.centred"):
        compile_update(made, CENTRED, Phase(samples=1), seed=4)


def test_the_visible_biases_start_at_the_log_odds_of_the_data(model):
    recipe = Recipe.from_dict(
        {
            "dataset": "own",
            "phases": [{"max_epochs": 1, "samples": 2, "learning_rate": 1e-9}],
            "model": {"layers": [3, 2], "visible_bias": "data"},
        }
    )
    reset(model)
    train(model, recipe, TrainingData(X, X), options=Options(quiet=True))
    ones = X.sum(axis=0)
    np.testing.assert_allclose(
        model.get_values()["p0.b"], np.log((ones + 1) / (6 - ones)), atol=1e-5
    )

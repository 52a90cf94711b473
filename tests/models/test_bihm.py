"""Algorithm 1: the fused graph equals the textbook one, and its expectation the exact gradient."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from exact import ExactModel, random_parameters, states

from bihm_repro.engine.symbolic import T, function, grad
from bihm_repro.errors import InputError
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine

# The comparisons in float64 run in Python: nothing is compiled for what is used once.
IN_PYTHON = {"mode": "FAST_COMPILE"}
X = (np.random.default_rng(1).random((6, 5)) < 0.5).astype(np.float64)


def machine(sizes, seed=0, scale=0.7, dtype="float64", **settings):
    model = BidirectionalHelmholtzMachine(sizes[0], sizes[1:], dtype=dtype, **settings).allocate()
    if settings.get("layer_settings"):
        model.initialize(seed)
    else:
        model.set_values(random_parameters(sizes, seed, scale))
    return model


def textbook_gradients(model, x, samples, seed, counter, control_variate):
    """Algorithm 1 as one would write it: repeated x, log-probabilities, symbolic derivatives."""
    layers = model.infer(x, samples, seed, counter).layers
    rows = T.repeat(x, samples, axis=0)

    def log_bernoulli(values, layer, inputs):
        for child in layer.children:
            inputs = child.apply(inputs)
        logits = T.dot(inputs, layer.W) + layer.b
        return (values * logits - T.log1p(T.exp(logits))).sum(axis=1)

    stack = [rows, *layers]
    log_q = sum(log_bernoulli(stack[i + 1], q, stack[i]) for i, q in enumerate(model.q))
    log_p = sum(log_bernoulli(stack[i], p, stack[i + 1]) for i, p in enumerate(model.p))
    b = model.prior.b
    log_p = log_p + (layers[-1] * b - T.log1p(T.exp(b))).sum(axis=1)
    omega = T.exp((log_p - log_q) / 2).reshape((x.shape[0], samples))
    weights = (omega / omega.sum(axis=1, keepdims=True)).flatten()
    q_weights = weights - 1.0 / samples if control_variate else weights
    cost = -(weights * log_p + q_weights * log_q).sum()
    return grad(cost, model.parameters, consider_constant=[weights, q_weights, *layers])


@pytest.mark.parametrize("sizes", [(5, 4), (5, 4, 3), (5, 4, 3, 2, 2)])
@pytest.mark.parametrize("control_variate", [True, False])
def test_fused_gradients_equal_the_textbook_graph(sizes, control_variate):
    model = machine(sizes)
    x, counter = T.matrix(dtype="float64"), T.lscalar()
    graph = model.training_graph(x, 7, 3, counter, control_variate=control_variate)
    ours = [graph.gradients[p] for p in model.parameters]
    theirs = textbook_gradients(model, x, 7, 3, counter, control_variate)
    found = function([x, counter], ours + theirs, **IN_PYTHON)(X, 11)
    half = len(found) // 2
    for parameter, a, b in zip(model.parameters, found[:half], found[half:]):
        assert a == pytest.approx(b, rel=1e-5, abs=1e-9), parameter.name


@pytest.mark.parametrize("activation", ["tanh", "relu", "logistic"])
def test_deterministic_layers_inside_conditionals(activation):
    model = machine(
        (5, 4, 3),
        layer_settings={"hidden": [6, 5], "activation": activation},
        weights="glorot",
        bias=0.1,
    )
    x, counter = T.matrix(dtype="float64"), T.lscalar()
    graph = model.training_graph(x, 4, 3, counter)
    theirs = textbook_gradients(model, x, 4, 3, counter, True)
    ours = [graph.gradients[p] for p in model.parameters]
    found = function([x, counter], ours + theirs, **IN_PYTHON)(X, 2)
    half = len(found) // 2
    assert len(graph.gradients) == half == len(model.parameters)
    for parameter, a, b in zip(model.parameters, found[:half], found[half:]):
        assert a == pytest.approx(b, rel=1e-5, abs=1e-9), parameter.name


def test_single_precision_agrees_with_double():
    results = []
    for dtype in ("float32", "float64"):
        model = machine((5, 4, 3), dtype=dtype)
        x, counter = T.matrix(dtype=dtype), T.lscalar()
        graph = model.training_graph(x, 6, 3, counter)
        mode = IN_PYTHON if dtype == "float64" else {}
        run = function([x, counter], [graph.gradients[p] for p in model.parameters], **mode)
        results.append(run(X.astype(dtype), 5))
    for single, double in zip(*results):
        assert single == pytest.approx(double, rel=2e-4, abs=2e-5)


@pytest.fixture(scope="module")
def gradient_draws():
    """300 gradients at K = 200 on two examples, with and without the control variate."""
    sizes = (3, 3, 2)
    x_value = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    model = machine(sizes, seed=4, scale=0.5, dtype="float32")
    x, counter = T.matrix(), T.lscalar()
    found = {}
    for variate in (True, False):
        graph = model.training_graph(x, 200, 9, counter, control_variate=variate)
        run = function(
            [x, counter], [T.concatenate([graph.gradients[p].flatten() for p in model.parameters])]
        )
        found[variate] = np.array(
            [run(x_value.astype(np.float32), i * graph.counters)[0] for i in range(300)]
        )
    exact = ExactModel(random_parameters(sizes, 4, 0.5)).gradient(x_value)
    truth = -np.concatenate([exact[p.name].ravel() for p in model.parameters])
    return found, truth


def deviation(draws, truth):
    """Largest distance of the mean from the truth, in standard errors."""
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    certain = error == 0  # the weights of an input that is never on
    assert np.all(draws.mean(axis=0)[certain] == 0) and certain.mean() < 0.1
    return (np.abs(draws.mean(axis=0) - truth)[~certain] / error[~certain]).max()


def test_expected_gradient_is_the_exact_one(gradient_draws):
    found, truth = gradient_draws
    assert deviation(found[True], truth) < 5  # the largest of 41 deviations
    assert deviation(found[False], truth) < 5


def test_a_gradient_with_wrong_weights_would_be_noticed(gradient_draws):
    found, truth = gradient_draws
    assert deviation(found[True], truth * 1.1) > 8
    assert deviation(found[True], np.zeros_like(truth)) > 8


def test_control_variate_reduces_the_variance(gradient_draws):
    found, _ = gradient_draws
    spread = {variate: draws.var(axis=0).sum() for variate, draws in found.items()}
    assert spread[True] < 0.7 * spread[False]


def test_monitors_are_the_estimates_of_the_same_samples():
    model = machine((5, 4, 3))
    x, counter = T.matrix(dtype="float64"), T.lscalar()
    graph = model.training_graph(x, 50, 3, counter)
    log_r, draws = model.log_weights(x, 50, 3, counter)
    assert draws == graph.counters == 2
    values = function([x, counter], [*graph.monitors.values(), log_r], **IN_PYTHON)(X, 0)
    log_p = (np.logaddexp.reduce(values[2], axis=1) - np.log(50)).sum()
    tilde = 2 * (np.logaddexp.reduce(values[2] / 2, axis=1) - np.log(50)).sum()
    assert list(graph.monitors) == ["log_p", "log_p_tilde_star"]
    assert values[:2] == [pytest.approx(log_p), pytest.approx(tilde)]


def test_generate_follows_p():
    sizes = (3, 2, 2)
    model = machine(sizes, seed=2, dtype="float32")
    exact = ExactModel(random_parameters(sizes, 2, 0.7))
    rows = T.lscalar()
    x, layers, log_p = model.generate(rows, 5, 0)
    drawn, log_joint, score = function([rows], [x, log_p, model.joint(x, layers).log_p])(40_000)
    counts = np.array([(drawn == row).all(axis=1).sum() for row in states(3)])
    expected = 40_000 * np.exp(exact.log_p())
    assert ((counts - expected) ** 2 / expected).sum() < 30  # 7 degrees of freedom
    assert log_joint == pytest.approx(score, abs=1e-5)


def test_names_and_shapes_are_those_of_the_model_file():
    model = BidirectionalHelmholtzMachine(5, [4, 3]).allocate().initialize(0)
    shapes = {name: value.shape for name, value in model.get_values().items()}
    assert shapes == {
        "p0.W": (4, 5),
        "p0.b": (5,),
        "p1.W": (3, 4),
        "p1.b": (4,),
        "p2.b": (3,),
        "q0.W": (5, 4),
        "q0.b": (4,),
        "q1.W": (4, 3),
        "q1.b": (3,),
    }
    assert {p.name for p in model.weights} == {"p0.W", "p1.W", "q0.W", "q1.W"}


def test_first_values_are_the_authors():
    model = BidirectionalHelmholtzMachine(30, [20]).allocate().initialize(3)
    values = model.get_values()
    assert all((values[b] == -1).all() for b in ("p0.b", "p1.b", "q0.b"))
    for name, fan_in in (("p0.W", 20), ("q0.W", 30)):
        limit = np.sqrt(6 / 50) / fan_in
        assert np.abs(values[name]).max() <= limit
        assert np.abs(values[name]).max() > 0.95 * limit
        assert values[name].std() == pytest.approx(limit / np.sqrt(3), rel=0.1)
    again = BidirectionalHelmholtzMachine(30, [20]).allocate().initialize(3).get_values()
    assert all(np.array_equal(values[n], again[n]) for n in values)


@pytest.mark.parametrize(
    ("data_dim", "layers", "message"),
    [
        (3, [], "model.layers is empty"),
        (3, [2, 0], "model.layers has 0"),
        (0, [2], "data_dim has 0"),
        (3, [True], "model.layers has True"),
        (3, [1.5], "model.layers has 1.5"),
    ],
)
def test_impossible_sizes_are_named(data_dim, layers, message):
    with pytest.raises(InputError, match=message):
        BidirectionalHelmholtzMachine(data_dim, layers)


TRAIN = """
import sys
import numpy as np
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine
from bihm_repro.recipes.recipe import Phase, TrainingRecipe
from bihm_repro.training.update import compile_update
model = BidirectionalHelmholtzMachine(200, [150, 40]).allocate().initialize(0)
update = compile_update(model, TrainingRecipe(), Phase(samples=20, learning_rate=1e-3), 5)
data = (np.random.default_rng(0).random((100, 100, 200)) < 0.3).astype(np.float32)
for batch in data:
    update(batch)
np.savez(sys.argv[1], **model.get_values())
"""


def test_a_seed_gives_the_same_parameters_on_one_and_two_threads(tmp_path):
    found = []
    for threads in ("1", "2"):
        path = tmp_path / f"{threads}.npz"
        subprocess.run(
            [sys.executable, "-c", TRAIN, str(path)],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": threads},
        )
        with np.load(path) as arrays:
            found.append(dict(arrays))
    for name, value in found[0].items():
        assert np.array_equal(value, found[1][name]), name

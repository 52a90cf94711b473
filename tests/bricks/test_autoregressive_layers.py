"""DARN and NADE layers against their definition, enumeration and finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from exact import states

from bihm_repro.bricks import registry
from bihm_repro.bricks.initialization import gaussian
from bihm_repro.bricks.layer import build
from bihm_repro.bricks.plugins import resolve
from bihm_repro.engine.symbolic import T, function
from bihm_repro.errors import InputError
from bihm_repro.ops.random_stream import RandomStream

INPUTS, UNITS, HIDDEN = 2, 4, 3
KINDS = list(itertools.product(["darn", "nade"], [False, True]))


def layer_of(kind, prior, dtype="float64"):
    settings = {"weights": gaussian(1.0), "bias": gaussian(1.0), "dtype": dtype}
    found = registry.layer_type(kind)
    sizes = (UNITS,) if prior else (INPUTS, UNITS)
    brick = build(
        found.prior if prior else found.conditional, "p0", *sizes, nade_hidden=HIDDEN, **settings
    )
    return brick.allocate("p0.").initialize(3)


def numpy_of(kind, prior, brick):
    found = registry.layer_type(kind)
    reference = found.numpy_prior if prior else found.numpy_conditional
    return resolve(reference)("p0", brick.get_values())


def log_prob_by_definition(kind, prior, values, x, arrays):
    """The product over units of p(v_i | x, v_1 ... v_{i-1}), float64."""
    a = {name.split(".")[1]: np.asarray(value, np.float64) for name, value in arrays.items()}
    total = 0.0
    for i in range(UNITS):
        logit = a["b"][i]
        if kind == "darn":
            if not prior:
                logit += x @ a["W"][:INPUTS, i]
            first = 0 if prior else INPUTS
            logit += sum(values[k] * a["W"][first + k, i] for k in range(i))
        else:
            inputs = a["c"] + sum((values[k] * a["R"][k] for k in range(i)), np.zeros(HIDDEN))
            if not prior:
                logit, inputs = logit + x @ a["W"][:, i], inputs + x @ a["U"]
            logit += a["V"][i] @ (1 / (1 + np.exp(-inputs)))
        total += values[i] * logit - np.logaddexp(0, logit)
    return total


def compiled(inputs, outputs, dtype="float64"):
    # The reference in numpy needs no compiler, and a compilation would take most of the time.
    return function(inputs, outputs, **({"mode": "FAST_COMPILE"} if dtype == "float64" else {}))


def score_function(brick, prior):
    """(values, x, weight) to log-probabilities, input means, and the gradients in order."""
    values, x, weight = (
        T.matrix("v", dtype="float64"),
        T.matrix("x", dtype="float64"),
        T.vector("w", dtype="float64"),
    )
    score = brick.score(values, train=True) if prior else brick.score(values, x, train=True)
    gradients = score.gradients(weight)
    means = [mean for _, mean in score.input_means.values()]
    outputs = [score.log_prob, *(gradients[p] for p in brick.parameters), *means]
    run = function([values, x, weight], outputs, mode="FAST_COMPILE", on_unused_input="ignore")
    count = len(brick.parameters)

    def call(values, x, weight):
        found = run(values, x, weight)
        return found[0], found[1 : 1 + count], found[1 + count :]

    return call


@pytest.mark.parametrize("kind, prior", KINDS)
def test_probabilities_are_the_product_of_the_conditionals_and_sum_to_one(kind, prior):
    brick = layer_of(kind, prior)
    call = score_function(brick, prior)
    values = states(UNITS)
    for x in states(INPUTS)[1:3]:
        log_p = call(values, np.tile(x, (len(values), 1)), np.ones(len(values)))[0]
        expected = [log_prob_by_definition(kind, prior, v, x, brick.get_values()) for v in values]
        assert log_p == pytest.approx(np.array(expected), abs=1e-12)
        assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("kind, prior", KINDS)
def test_gradients_are_slopes(kind, prior):
    """Of -sum w log-probability; a row of values serves two rows of the inputs."""
    brick = layer_of(kind, prior)
    call = score_function(brick, prior)
    generator = np.random.default_rng(1)
    rows = 3 if prior else 6
    values, x = states(UNITS)[[3, 6, 13]], generator.random((rows, INPUTS))
    weight = generator.normal(size=rows)
    _, gradients, _ = call(values, x, weight)
    for parameter, gradient in zip(brick.parameters, gradients):
        value, slopes = parameter.get_value(), np.zeros(parameter.get_value().shape)
        for at in np.ndindex(*value.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = value.copy()
                moved[at] += step
                parameter.set_value(moved)
                ends.append(-(weight * call(values, x, weight)[0]).sum())
            slopes[at] = (ends[0] - ends[1]) / 2e-6
        parameter.set_value(value)
        assert np.abs(slopes).max() > 1e-2, parameter.name
        assert gradient == pytest.approx(slopes, abs=1e-7), parameter.name


@pytest.mark.parametrize("kind", ["darn", "nade"])
def test_a_sample_scores_and_differentiates_as_given_values(kind):
    """Three samples of each row of x; gradients as those of scoring them with x repeated."""
    brick = layer_of(kind, False)
    x, weight = T.matrix("x", dtype="float64"), T.vector("w", dtype="float64")
    drawn = brick.sample(x, repeats=3, seed=1, counter=5, train=True)
    gradients = drawn.gradients(weight)
    run = compiled(
        [x, weight],
        [
            drawn.values,
            drawn.log_prob,
            *(gradients[p] for p in brick.parameters),
            *(mean for _, mean in drawn.input_means.values()),
        ],
    )
    generator = np.random.default_rng(2)
    rows, w = generator.random((5, INPUTS)), generator.normal(size=15)
    values, log_p, *found = run(rows, w)
    expected = score_function(brick, False)(values, np.repeat(rows, 3, axis=0), w)
    assert log_p == pytest.approx(expected[0], abs=1e-12)
    for mine, theirs in zip(found, [*expected[1], *expected[2]]):
        assert mine == pytest.approx(theirs, abs=1e-12)


def test_darn_centres_inputs_and_units_together():
    brick = layer_of("darn", False)
    values, x = states(UNITS)[[3, 6, 13]], np.random.default_rng(0).random((6, INPUTS))
    (mean,) = score_function(brick, False)(values, x, np.ones(6))[2]
    assert mean == pytest.approx(np.concatenate([x.mean(axis=0), values.mean(axis=0)]))
    assert not np.tril(brick.W.get_value()[INPUTS:]).any()


def assert_frequencies(drawn, log_p, total):
    """Counts of all states against their probabilities, in standard errors."""
    codes = drawn.astype(int) @ (2 ** np.arange(UNITS)[::-1])
    found, p = np.bincount(codes, minlength=2**UNITS) / total, np.exp(log_p)
    assert np.abs((found - p) / np.sqrt(p * (1 - p) / total)).max() < 4.5


@pytest.mark.parametrize("kind, prior", KINDS)
def test_samplers_have_the_right_frequencies(kind, prior):
    """The C kernel and the numpy layer, for one row of inputs."""
    brick = layer_of(kind, prior, "float32")
    x, count = np.array([[1.0, 0.3]], np.float32), 40000
    log_p = np.array(
        [log_prob_by_definition(kind, prior, v, x[0], brick.get_values()) for v in states(UNITS)]
    )
    repeats = T.lscalar()
    drawn = (
        brick.sample(repeats, seed=1, counter=2)
        if prior
        else brick.sample(T.as_tensor_variable(x), repeats=repeats, seed=1, counter=2)
    )
    assert_frequencies(function([repeats], drawn.values)(count), log_p, count)
    plain = numpy_of(kind, prior, brick).given(None if prior else x[0])
    assert_frequencies(plain.sample(RandomStream(0, "test"), (count,)), log_p, count)


@pytest.mark.parametrize("kind, prior", KINDS)
def test_numpy_layers_score_every_shape_that_samplers_use(kind, prior):
    brick = layer_of(kind, prior)
    layer = numpy_of(kind, prior, brick)
    assert (layer.inputs, layer.units) == (0 if prior else INPUTS, UNITS)
    x, arrays = states(INPUTS)[1:], brick.get_values()
    given = layer.given(None if prior else x)
    values = np.stack([states(UNITS)[3:8]] * len(x))
    expected = np.array(
        [
            [log_prob_by_definition(kind, prior, v, row, arrays) for v in group]
            for row, group in zip(x, values)
        ]
    )
    assert given.log_prob(values) == pytest.approx(expected, abs=1e-5)
    assert given.log_prob(values[:, 0]) == pytest.approx(expected[:, 0], abs=1e-5)
    if not prior:
        of_all = layer.given(np.stack([x, x[::-1]])).log_prob(values[:1, 0])
        assert of_all.shape == (2, 3) and of_all[0] == pytest.approx(expected[:, 0], abs=1e-5)
    half = np.array([True, False, True, False])
    parts = given.log_prob(values, half) + given.log_prob(values, ~half)
    assert parts == pytest.approx(expected, abs=1e-5)
    ones = given.probabilities(np.ones_like(values))
    assert np.log(ones).sum(axis=-1) == pytest.approx(
        given.log_prob(np.ones_like(values)), abs=1e-5
    )


@pytest.mark.parametrize("kind", ["darn", "nade"])
def test_numpy_layers_keep_known_units_and_draw_the_others_given_them(kind):
    """Frequencies of what is drawn against the part of the product that it is drawn from."""
    layer = numpy_of(kind, False, layer_of(kind, False))
    given, count = layer.given(np.array([[0.5, 1.0]])), 40000
    unknown, values = np.array([False, True, False, True]), np.array([1, 0, 0, 1], np.float32)
    drawn = given.sample(RandomStream(0, "test"), (count,), unknown, values)
    assert drawn.shape == (1, count, UNITS)
    assert (drawn[..., [0, 2]] == values[[0, 2]]).all()
    cases = np.array([[1, a, 0, b] for a in (0, 1) for b in (0, 1)], float)
    p = np.exp(given.log_prob(cases[None], unknown))[0]
    assert p.sum() == pytest.approx(1, abs=1e-5)
    found = np.bincount((drawn[0, :, 1] * 2 + drawn[0, :, 3]).astype(int), minlength=4) / count
    assert np.abs((found - p) / np.sqrt(p * (1 - p) / count)).max() < 4.5


def test_numpy_darn_draws_long_layers_in_blocks():
    """70 units: every unit has the probability that the units before it give."""
    generator = np.random.default_rng(0)
    arrays = {
        "p0.W": np.triu(generator.normal(size=(70, 70)), 1),
        "p0.b": generator.normal(size=70),
    }
    given = resolve(registry.layer_type("darn").numpy_prior)("p0", arrays).given()
    drawn = given.sample(RandomStream(4, "test"), (30,))
    u = RandomStream(4, "test").uniform((30, 70))
    logits = arrays["p0.b"] + drawn @ arrays["p0.W"]
    assert np.array_equal(drawn, u < 1 / (1 + np.exp(-logits)))


@pytest.mark.parametrize("kind, name", [("darn", "W"), ("nade", "R"), ("nade", "V"), ("nade", "U")])
def test_misshapen_arrays_are_named(kind, name):
    arrays = layer_of(kind, False).get_values()
    arrays[f"p0.{name}"] = arrays[f"p0.{name}"][:, :-1]
    with pytest.raises(InputError, match=rf"p0\.{name}"):
        resolve(registry.layer_type(kind).numpy_conditional)("p0", arrays)

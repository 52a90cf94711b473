"""Phases that train the upper layers alone, as a model of samples of the layer below them."""

from __future__ import annotations

import numpy as np
import pytest
from exact import ExactModel, random_parameters, states

from bihm_repro.errors import InputError
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine
from bihm_repro.recipes.recipe import Phase, Recipe, TrainingRecipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.training.extensions import Extension
from bihm_repro.training.session import Options, TrainingData, train
from bihm_repro.training.update import compile_update

SIZES = (4, 3, 3, 2)
START = {
    name: value.astype(np.float32)
    for name, value in random_parameters(SIZES, seed=1, scale=0.5).items()
}
LOWER = {"p0.W", "p0.b", "q0.W", "q0.b"}


@pytest.fixture
def model():
    made = BidirectionalHelmholtzMachine(SIZES[0], SIZES[1:], weights="glorot").allocate()
    made.set_values(START)
    return made


def log_bernoulli(values, logits):
    return (values * logits - np.logaddexp(0, logits)).sum(axis=-1)


def above_first(values):
    """The parameters above h_1 under the names that they have in a model of h_1."""
    return {
        f"{name[0]}{int(name[1]) - 1}{name[2:]}": value
        for name, value in values.items()
        if name not in LOWER
    }


def test_a_step_descends_the_gradient_of_the_upper_layers_as_a_model_of_the_layer_below(model):
    """In expectation over h_1 ~ q(h_1|x), which is enumerated."""
    x = states(4)[[3, 9, 14]].astype(np.float32)
    copies, upper, h = 400, ExactModel(above_first(START)), states(3)
    log_q = log_bernoulli(h[None], (x @ START["q0.W"] + START["q0.b"])[:, None])
    log_p = log_bernoulli(x[:, None], (h @ START["p0.W"] + START["p0.b"])[None])
    probability = np.exp(log_q)
    weights, each = probability.sum(axis=0), [upper.gradient(row[None]) for row in h]
    wanted = {name: sum(w * found[name] for w, found in zip(weights, each)) for name in each[0]}
    update = compile_update(
        model,
        TrainingRecipe(l1=0.0, step_rule="sgd"),
        Phase(samples=500, learning_rate=1.0, above=1),
        seed=3,
    )
    sums = update(np.repeat(x, copies, axis=0))
    new = model.get_values()
    for name in LOWER:
        np.testing.assert_array_equal(new[name], START[name], err_msg=name)
    found = above_first({name: value - START[name] for name, value in new.items()})
    error = np.sqrt(copies * len(x)) / 2 / copies
    for name, value in wanted.items():
        # The score of a unit lies within one of zero for each row.
        np.testing.assert_allclose(found[name] / copies, value, atol=4 * error, err_msg=name)
    assert max(abs(value).max() for value in wanted.values()) > 10 * error
    bound = probability * (log_p - log_q + upper.log_p(h)[None])
    assert sums["log_p"] / copies == pytest.approx(bound.sum(), abs=0.3)


def recipe(**phase):
    first = {"samples": 3, "learning_rate": 1e-6, "max_epochs": 1}
    second = {"learning_rate": 0.01, "max_epochs": 3, "above": 1, "average_over": 5}
    return Recipe.from_dict(
        {
            "dataset": "own",
            "model": {"layers": list(SIZES[1:]), "weights": "glorot"},
            "training": {"batch_size": 20, "l1": 0.1, "centred": True, "total_variation": 0.1},
            "phases": [first, {**first, **second, **phase}],
            "monitor": {"test_every": 0, "units_every": 0, "checkpoint_seconds": 0},
        }
    )


X = (np.random.default_rng(3).random((200, 4)) < 0.5).astype(np.float32)
DATA = TrainingData(X, X[:20], fingerprint="f", image_shape=(2, 2))


class Record(Extension):
    """Keeps the parameters at the start of the second phase, and pauses after some update."""

    def __init__(self, pause_at=None):
        self.at, self.started, self.measured = pause_at, None, None

    def before_phase(self, loop):
        self.started = loop.model.get_values()

    def after_epoch(self, loop):
        self.measured = loop.model.get_values()

    def after_batch(self, loop):
        if loop.log.status.updates == self.at:
            loop.log.pause = "test"


@pytest.mark.parametrize("restart", [False, True])
def test_the_lower_layers_stay_and_the_upper_ones_restart_where_that_is_asked_for(model, restart):
    record = Record()
    options = Options(quiet=True, extensions=(record,))
    log = train(model, recipe(restart_above=restart), DATA, options=options)
    # The first of four epochs, at a rate of 1e-6, leaves the parameters as they are.
    for name, value in record.started.items():
        kept = name in LOWER or not restart
        assert np.allclose(value, START[name], atol=1e-3) == kept, name
    for name, value in record.measured.items():
        assert np.array_equal(value, record.started[name]) == (name in LOWER), name
    assert not restart or log.status.best_epoch > 1 and log.rows[1]["best"]


@pytest.mark.parametrize("at", [10, 11, 25])
def test_a_run_that_is_resumed_ends_as_one_that_was_not_paused(model, tmp_path, at):
    wanted, ends = recipe(restart_above=True), []
    for name, steps in (("whole", [None]), ("paused", [at, None])):
        run = RunDirectory(tmp_path / name)
        run.claim(wanted)
        for step in steps:
            model.set_values(START)
            train(model, wanted, DATA, run, Options(quiet=True, extensions=(Record(step),)))
        ends.append(model.get_values())
    for name, value in ends[0].items():
        np.testing.assert_array_equal(value, ends[1][name], err_msg=name)


@pytest.mark.parametrize(
    ("model", "phase", "message"),
    [
        ({}, {"above": 2}, "phases.1.above = 2: must be below 2, the number of layers"),
        ({}, {"restart_above": True}, "restart_above = true needs one of at least 1"),
        ({"kind": "rws"}, {"above": 1}, "a rws model is trained as a whole; leave it out"),
    ],
)
def test_upper_layers_that_cannot_be_trained_alone_are_refused(model, phase, message):
    content = {"dataset": "bars", "model": {"layers": [4, 2], **model}}
    with pytest.raises(InputError, match=message):
        Recipe.from_dict({**content, "phases": [{}, phase]})

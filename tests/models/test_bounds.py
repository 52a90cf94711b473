"""NVIL and VIMCO: expected gradients against slopes of the exact bounds, and training."""

from __future__ import annotations

import numpy as np
import pytest
from exact import ExactModel, random_parameters, states

from bihm_repro.engine.symbolic import T, function
from bihm_repro.errors import InputError
from bihm_repro.models.nvil import Nvil
from bihm_repro.models.vimco import Vimco, _without_each
from bihm_repro.recipes.recipe import Phase, TrainingRecipe
from bihm_repro.training.update import compile_update

SIZES = (3, 2, 2)
X = states(3)[[1, 6]]


def tiny(cls, seed=0):
    parameters = random_parameters(SIZES, seed)
    model = cls(SIZES[0], SIZES[1:], dtype="float64").allocate().initialize(0)
    model.set_values({**model.get_values(), **parameters})
    return model, parameters


def bound(parameters, samples):
    """The sum over X of the expectation of log (1/K) sum_k r_k, for K of 1 or 2."""
    exact = ExactModel(parameters)
    if samples == 1:
        return exact.expected_log_weight(X).sum()
    log_r, q = exact.log_weights(X), np.exp(exact.log_q(X))
    pairs = np.logaddexp(log_r[:, :, None], log_r[:, None, :]) - np.log(2)
    return np.einsum("xg,xh,xgh->", q, q, pairs)


def slopes(parameters, name, samples):
    found = np.zeros(parameters[name].shape)
    for at in np.ndindex(*found.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = parameters[name].copy()
            moved[at] += step
            ends.append(bound({**parameters, name: moved}, samples))
        found[at] = (ends[0] - ends[1]) / 2e-5
    return found


@pytest.mark.parametrize(("cls", "samples"), [(Nvil, 1), (Vimco, 2)])
def test_the_expected_gradient_is_that_of_the_exact_bound(cls, samples):
    """In standard errors over many copies of the batch, for every parameter of p and q."""
    model, parameters = tiny(cls)
    if cls is Nvil:  # a baseline that depends on the inputs leaves the expectation as it is
        random = np.random.default_rng(1)
        values = model.get_values()
        values["baseline0.out.W"] = random.normal(size=values["baseline0.out.W"].shape)
        model.set_values(values)
    x, draw = T.matrix(dtype="float64"), T.lscalar()
    graph = model.training_graph(x, samples, 5, draw)
    names = list(parameters)
    by_name = {p.name: g for p, g in graph.gradients.items()}
    run = function([x, draw], [by_name[name] for name in names], mode="FAST_COMPILE")
    copies, calls = 400, 50
    found = [run(np.tile(X, (copies, 1)), call * graph.counters) for call in range(calls)]
    for i, name in enumerate(names):
        values = -np.array([gradients[i] for gradients in found]) / copies
        errors = values.std(axis=0, ddof=1) / np.sqrt(calls)
        expected = slopes(parameters, name, samples)
        assert np.abs((values.mean(axis=0) - expected) / errors).max() < 4.5, name
        assert np.abs(expected / errors).max() > 20, name


def test_baselines_of_nvil_follow_the_signal():
    """Gradients of the networks are slopes of half the squared rest; means and variances run."""
    model, _ = tiny(Nvil)
    x = T.matrix(dtype="float64")
    graph = model.training_graph(x, 1, 5, 0)
    assert [v.name for v in graph.state] == [
        "nvil.mean0",
        "nvil.variance0",
        "nvil.mean1",
        "nvil.variance1",
    ]
    out = next(p for p in model.parameters if p.name == "baseline0.out.b")
    run = function(
        [x],
        [graph.gradients[out], graph.monitors["log_p"]],
        updates=graph.updates,
        mode="FAST_COMPILE",
    )
    gradient, total = run(X)
    assert gradient == pytest.approx([-total])  # rest = signal - 0, summed, with a minus sign
    assert graph.state[0].get_value() == pytest.approx(0.2 * total / 2)
    second, total = run(X)
    assert second == pytest.approx([-(total - 2 * 0.2 * total / 2)])


@pytest.mark.parametrize(("cls", "samples"), [(Nvil, 5), (Vimco, 5)])
def test_updates_raise_the_bound(cls, samples):
    model = cls(4, [4, 2], weights="glorot", bias=0.0).allocate().initialize(0)
    x = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]], np.float32)
    names = [n for n in model.get_values() if not n.startswith("baseline")]
    before = ExactModel({n: model.get_values()[n] for n in names}).expected_log_weight(x).mean()
    update = compile_update(
        model,
        TrainingRecipe(l1=0.0, centred=True),
        Phase(samples=samples, learning_rate=0.03),
        seed=1,
    )
    for _ in range(300):
        update(np.tile(x, (10, 1)))
    after = ExactModel({n: model.get_values()[n] for n in names})
    assert before < -2.7 and after.expected_log_weight(x).mean() > -2.1


@pytest.mark.parametrize("samples", [2, 4])
def test_the_baseline_of_vimco_has_the_geometric_mean_of_the_others(samples):
    log_r = 3 * np.random.default_rng(2).normal(size=(3, samples))
    x = T.matrix(dtype="float64")
    found = function([x], _without_each(x, samples), mode="FAST_COMPILE")(log_r)
    for (row, k), value in np.ndenumerate(found):
        others = np.delete(log_r[row], k)
        expected = np.log(np.exp([*others, others.mean()]).mean())
        assert value == pytest.approx(expected, abs=1e-12)


def test_vimco_needs_two_samples():
    model, _ = tiny(Vimco)
    with pytest.raises(InputError, match="2 or more"):
        model.training_graph(T.matrix(dtype="float64"), 1, 0, 0)

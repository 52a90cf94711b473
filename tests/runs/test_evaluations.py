"""When an evaluation is up to date, and that it is of the model that was read."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from bihm_repro.recipes.recipe import EvaluationRecipe, Recipe
from bihm_repro.runs.evaluation import answers, is_up_to_date
from bihm_repro.runs.layout import RunDirectory

SETTINGS = EvaluationRecipe(samples=(1, 10), z_samples=500, ess_samples=20, ess_examples=30)
ESTIMATE = {"value": -1.0, "standard_error": 0.5}
EVALUATION = {
    "split": "test",
    "n_examples": 100,
    "model_fingerprint": "m",
    "data_fingerprint": "d",
    "samples": {k: {"log_p": ESTIMATE, "log_p_tilde_star": ESTIMATE} for k in ("1", "10")},
    "log_z2": {**ESTIMATE, "samples": 500, "inner": 1},
    "ess": {"samples": 20, "examples": 30, "p": ESTIMATE},
}


@pytest.mark.parametrize(
    "changes", [{"split": "valid"}, {"model_fingerprint": "other"}, {"data_fingerprint": "other"}]
)
def test_another_split_model_or_data_set_is_another_evaluation(changes):
    assert is_up_to_date(EVALUATION, "m", "d")
    assert not is_up_to_date({**EVALUATION, **changes}, "m", "d")
    assert not is_up_to_date(None, "m", "d")


def changed(path, value):
    content = copy.deepcopy(EVALUATION)
    *parents, last = path.split(".")
    place = content
    for name in parents:
        place = place[name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "enough"),
    [
        ("n_examples", 99, False),
        ("samples.10", None, False),
        ("samples.5", {"log_p": ESTIMATE}, True),
        ("log_z2", None, False),
        ("log_z2.samples", 499, False),
        ("log_z2.samples", 501, True),
        ("log_z2.inner", 2, False),
        ("ess", None, False),
        ("ess.samples", 21, False),
        ("ess.examples", 29, False),
        ("ess.examples", 100, True),
    ],
)
def test_everything_that_is_asked_for_has_to_be_there(path, value, enough):
    assert answers(EVALUATION, SETTINGS, 100)
    assert answers(changed(path, value), SETTINGS, 100) == enough


def test_what_a_model_does_not_have_or_nobody_asks_for_is_not_missed():
    plain = changed("log_z2", None)
    for entries in plain["samples"].values():
        del entries["log_p_tilde_star"]
    assert answers(plain, SETTINGS, 100)
    none = EvaluationRecipe(samples=(1,), z_samples=0, ess_samples=0)
    assert answers(changed("log_z2", None), none, 100) and answers(changed("ess", None), none, 100)
    every = EvaluationRecipe(samples=(1,), z_samples=0, ess_samples=20, ess_examples=0)
    assert not answers(EVALUATION, every, 100)
    assert answers(changed("ess.examples", 100), every, 100)


def test_an_evaluation_has_the_fingerprint_of_the_model_that_was_read(tmp_path, monkeypatch):
    """A trainer that replaces model.npz during an evaluation changes nothing in it."""
    from bihm_repro.datasets.dataset import load_dataset
    from bihm_repro.estimators import evaluate
    from bihm_repro.models.build import build_model

    run = RunDirectory(tmp_path / "run")
    run.claim(Recipe.from_dict({"dataset": "bars", "model": {"layers": [2]}}))
    values = build_model(run.recipe.model, 16, 0).get_values()
    run.write_model(values, {"data_dim": 16})
    before = run.read_model().fingerprint

    def measure(model, *args, **kwargs):
        run.write_model({**values, "p0.b": values["p0.b"] + 1}, {"data_dim": 16})
        return {"b": model.get_values()["p0.b"]}

    monkeypatch.setattr(evaluate, "evaluate_model", measure)
    result = evaluate.evaluate_run(run, dataset=load_dataset("bars", tmp_path), write=False)
    assert result["model_fingerprint"] == before != run.read_model().fingerprint
    np.testing.assert_array_equal(result["b"], values["p0.b"])

"""RWS, VAE and IWAE through the real commands at toy size: train, evaluate, sample."""

from __future__ import annotations

import numpy as np
import pytest

from bihm_repro.cli.main import main
from bihm_repro.recipes.recipe import Recipe, find_recipe
from bihm_repro.runs.layout import RunDirectory

RECIPE = """
dataset = "bars"
[model]
kind = "{kind}"
{model}
weights = "glorot"
bias = 0.0
[training]
batch_size = 500
l1 = 0.0
[[phases]]
samples = {samples}
learning_rate = 0.01
max_epochs = 2
[monitor]
valid_samples = {samples}
test_every = 0
[evaluation]
samples = [1, 20]
ess_samples = 50
ess_examples = 100
"""
MODELS = {
    "rws": ("layers = [5, 3]", 3),
    "vae": ("layers = [3]\nhidden = [6, 5]", 1),
    "iwae": ("layers = [3, 2]\nhidden = [[6], [4]]", 2),
}


@pytest.mark.parametrize("kind", MODELS)
def test_train_evaluate_and_sample(kind, tmp_path, capsys):
    """The same run folder as a BiHM's, with log p and the ESS of p, and nothing of p*."""
    model, samples = MODELS[kind]
    (tmp_path / "toy.toml").write_text(RECIPE.format(kind=kind, model=model, samples=samples))
    where = ["--out", str(tmp_path / "run"), "--data", str(tmp_path / "data")]
    assert main(["train", str(tmp_path / "toy.toml"), *where]) == 0
    run = RunDirectory(tmp_path / "run")
    evaluation = run.read_evaluation()
    assert evaluation["model_kind"] == kind and "log_z2" not in evaluation
    assert {name for figures in evaluation["samples"].values() for name in figures} == {"log_p"}
    assert 100 / 50 <= evaluation["ess"]["p"]["value"] <= 100 and "p_star" not in evaluation["ess"]
    log = run.read_log()
    assert np.isfinite(log["train_log_p"]).all() and np.isfinite(log["valid_bound"]).all()
    assert log["train_log_p_tilde_star"].isna().all()
    assert (
        main(
            [
                "evaluate",
                str(run.path),
                "--samples",
                "5",
                "--ess-samples",
                "0",
                "--examples",
                "50",
                "--no-write",
            ]
        )
        == 0
    )
    assert main(["sample", str(run.path), "--n", "4", "--data", where[-1]]) == 0
    assert (run.path / "pictures" / "samples-0.png").stat().st_size > 0
    assert "K=     5  -log p" in capsys.readouterr().out
    assert main(["sample", str(run.path), "--gibbs", "3", "--data", where[-1]]) == 2
    assert f"a {kind} model has no Gibbs sampling of p*" in capsys.readouterr().err


def test_recipes_of_reweighted_wake_sleep_are_the_papers():
    """Layer sizes of the paper's table, K = 10 then 100, and plain wake weights.

    dna and nips are trained as in the contest: K = 10, and the control variate that BiHM has.
    """
    layers = {
        "adult": (100, 20, 5),
        "connect4": (150, 50, 10),
        "dna": (150, 10),
        "mushrooms": (150, 50, 10),
        "nips": (150, 50, 10),
        "ocr_letters": (300, 100, 10),
        "rcv1": (200, 50, 10),
        "web": (300, 50, 10),
        "mnist": (400, 300, 200, 100, 10),
    }
    for name, sizes in layers.items():
        recipe = Recipe.load(find_recipe(f"rws/{name}"))
        assert recipe.model.kind == "rws" and recipe.model.layers == sizes
        contest = name in ("dna", "nips")
        assert recipe.phases[0].samples == 10
        assert recipe.phases[-1].samples == (10 if contest else 100)
        assert recipe.training.control_variate == contest


@pytest.mark.parametrize(
    ("name", "weights", "l1"), [("vae/mnist-paper", "gaussian", 0), ("vae/mnist", "glorot", 1e-3)]
)
def test_recipes_of_the_vae_have_the_papers_model(name, weights, l1):
    """Two layers of 500 each side, 100 latents, biases 0; as published, weights N(0, 0.1^2)."""
    recipe = Recipe.load(find_recipe(name))
    model = recipe.model
    assert (model.layers, model.hidden, model.activation) == ((100,), (500, 500), "relu")
    assert (model.weights, model.weights_scale, model.bias) == (weights, 0.1, 0.0)
    assert recipe.phases[0].samples == 1 and recipe.training.l1 == l1

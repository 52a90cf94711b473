"""The recipes of the project: the paper's sizes and schedules, ablations."""

from __future__ import annotations

from pathlib import Path

import pytest

from bihm_repro.recipes.recipe import Recipe, find_recipe

ROOT = Path(__file__).parents[2]


RECIPES = sorted((ROOT / "run_exps").rglob("*.toml"))


PAPER_LAYERS = {
    "adult": [100, 70, 50, 25],
    "connect4": [300, 110, 50, 20],
    "dna": [200, 150, 130, 100, 70, 50, 30, 20, 10],
    "mushrooms": [150, 100, 90, 60, 40, 20],
    "nips": [200, 100, 50, 25],
    "ocr_letters": [600, 500, 100, 50, 30, 10],
    "rcv1": [500, 120, 70, 30],
    "web": [650, 580, 70, 30, 10],
    "mnist": [300, 200, 100, 75, 50, 35, 30, 25, 20, 15, 10, 10],
    "tfd": [1000, 700, 700, 300],
    "fer2013": [1000, 700, 700, 300],
    "rws/adult": [100, 20, 5],
    "rws/connect4": [150, 50, 10],
    "rws/dna": [150, 10],
    "rws/mushrooms": [150, 50, 10],
    "rws/nips": [150, 50, 10],
    "rws/ocr_letters": [300, 100, 10],
    "rws/rcv1": [200, 50, 10],
    "rws/web": [300, 50, 10],
    "rws/mnist": [400, 300, 200, 100, 10],
}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_of_the_project_survives_being_frozen(path, tmp_path):
    made = Recipe.load(path)
    frozen = tmp_path / "recipe.toml"
    frozen.write_text(made.to_toml(), encoding="utf-8")
    assert Recipe.load(frozen) == made
    assert Recipe.load(frozen).fingerprint() == made.fingerprint()


@pytest.mark.parametrize("name", PAPER_LAYERS)
def test_layer_sizes_are_those_of_the_paper(name):
    assert list(Recipe.load(find_recipe(name)).model.layers) == PAPER_LAYERS[name]


@pytest.mark.parametrize("name", ["mnist-paper", "dna-paper", "web-paper"])
def test_paper_variants_keep_the_papers_schedule(name):
    assert Recipe.load(find_recipe(name)).phases == Recipe().phases


def test_the_iwae_schedule_holds_eight_rates_for_3280_epochs():
    phase = Recipe.load(find_recipe("iwae/mnist-paper")).phases[0]
    assert phase.last_epoch == 3280 and len(phase.learning_rates) == 8
    assert (phase.rate_at(0), phase.rate_at(1)) == (1e-3, phase.rate_at(3))
    assert phase.rate_at(3279) == pytest.approx(1e-4)


def test_the_iwae_with_penalties_has_the_layers_of_the_published_one():
    published = Recipe.load(find_recipe("iwae/mnist-paper"))
    ours = Recipe.load(find_recipe("iwae/mnist"))
    assert ours.model == published.model
    assert ours.training.total_variation > 0
    assert published.training.total_variation == published.training.l1 == 0


DEPTHS = [f"mnist-{count}layers" for count in (1, 2, 3, 6, 9)]


WITHOUT = [f"mnist-without{number}" for number in range(1, 12)]


@pytest.mark.parametrize("name", [*DEPTHS, *WITHOUT])
def test_an_ablation_differs_from_twelve_layers_in_its_layers_alone(name):
    full = Recipe.load(find_recipe("ablation/mnist-12layers"))
    ablation = Recipe.load(find_recipe(f"ablation/{name}"))
    layers, number = list(full.model.layers), int("".join(filter(str.isdigit, name)))
    kept = layers[: number - 1] + layers[number:] if "without" in name else layers[:number]
    assert ablation.changes(full) == {"model.layers": (kept, layers)}


def test_the_ablations_train_the_model_of_mnist_for_fewer_updates():
    names = ("ablation/mnist-12layers", "mnist-l1")
    full, mnist = (Recipe.load(find_recipe(name)) for name in names)
    assert full.model == mnist.model and full.training == mnist.training
    assert sum(phase.max_epochs for phase in full.phases) == 32

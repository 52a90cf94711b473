"""Recipes that extend others, and recipes by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bihm_repro.errors import InputError
from bihm_repro.recipes.recipe import Phase, Recipe, find_recipe


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    return folder / "child.toml"


def test_a_recipe_extends_another_over_several_levels(tmp_path):
    path = write(
        tmp_path,
        base='dataset = "bars"\n[model]\nlayers = [4]\nbias = 1\n[[phases]]\npatience = 3',
        middle='extends = "base.toml"\nseed = 2\n[model]\nlayers = [5]',
        child='extends = "middle"\nseed = 3\n[training]\nl1 = 1',
    )
    made = Recipe.load(path, ["model.bias=2"])
    assert (made.dataset, made.seed, made.model.layers) == ("bars", 3, (5,))
    assert made.model.bias == 2.0 and made.training.l1 == 1.0
    assert made.phases == (Phase(patience=3),)
    assert "extends" not in made.to_toml()
    write(tmp_path, child='extends = "middle"\n[[phases]]\nsamples = 7\n[[phases]]')
    assert Recipe.load(path).phases == (Phase(samples=7), Phase())


def test_a_name_of_run_exps_comes_before_a_file_beside(tmp_path):
    path = write(tmp_path, bars='dataset = "other"', child='extends = "bars"')
    assert Recipe.load(path).dataset == "bars"
    write(tmp_path, child='extends = "./bars.toml"\n[model]\nlayers = [1]')
    assert Recipe.load(path).dataset == "other"


def test_a_circle_is_one_line(tmp_path):
    path = write(tmp_path, a='extends = "b"', b='extends = "child"', child='extends = "a"')
    with pytest.raises(
        InputError,
        match=r"child.toml: its recipes extend each other in a circle "
        r"\(child -> a -> b -> child\); remove one extends line",
    ):
        Recipe.load(path)


def test_an_unknown_name_lists_the_recipes():
    with pytest.raises(
        InputError,
        match=r"mushroom: no such recipe in run_exps/ "
        r"\(did you mean 'mushrooms'\?\)",
    ):
        find_recipe("mushroom")
    assert find_recipe("some/where.toml") == Path("some/where.toml")


@pytest.mark.parametrize("ending", ["", ".toml"])
def test_a_name_too_long_for_a_file_is_no_recipe(tmp_path, ending):
    path = tmp_path / "mine.toml"
    path.write_text(f'extends = "{"é" * 300}{ending}"\n', encoding="utf-8")
    with pytest.raises(InputError, match="there is no such recipe"):
        Recipe.load(path)
    with pytest.raises(InputError, match="no such recipe"):
        find_recipe("é" * 300)

"""Mutated recipes: refused on one line, or written as TOML and read back unchanged."""

from __future__ import annotations

from pathlib import Path

from bihm_repro.files import parse_toml, to_toml
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.reader import read_run
from tests.torture.harness import Case, Failure, Group
from tests.torture.mutations import mutated_text, mutated_value, nasty_value


def _prepare(folder: Path) -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(Path("run_exps").rglob("*.toml"))]
    full = Recipe.from_dict({"dataset": "bars", "model": {"layers": [5, 3]}})
    return [*texts, *[full.to_toml()] * len(texts)]


def _content(texts: list[str], case: Case) -> bytes:
    chance = case.random
    text = chance.choice(texts)
    if chance.random() < 0.02:
        return b"a = " + chance.choice((b"[", b"{b=")) * chance.choice((10, 500, 20_000))
    if chance.random() < 0.5:
        try:
            changed = mutated_value(parse_toml(text, "seed"), chance)
            return to_toml(changed).encode("utf-8", "surrogatepass")
        except Exception:  # TOML has no null, for example
            pass
    return mutated_text(text, chance)


def _attack(texts: list[str], case: Case) -> str:
    path = case.folder / "recipe.toml"
    path.write_bytes(_content(texts, case))
    if case.random.random() < 0.25:
        return _in_a_run_folder(case)
    overrides = []
    if case.random.random() < 0.2:
        name = case.random.choice(("seed", "model.layers", "phases.0.samples", "phases.9.x", "a.b"))
        overrides = [f"{name}={nasty_value(case.random)}"]
    recipe = Recipe.load(path, overrides)
    if Recipe.from_dict(parse_toml(recipe.to_toml(), "copy")) != recipe:
        raise Failure("the recipe read back is another one")
    RunDirectory(case.folder / "run").claim(recipe)
    RunDirectory(case.folder / "run").claim(recipe)
    return "accepted"


def _in_a_run_folder(case: Case) -> str:
    run = read_run(case.folder)
    for value in (run.dataset, run.kind, run.layers, run.seed, run.recipe_without_seed):
        str(value)
    return "accepted"


GROUP = Group("recipes", 2.0, _prepare, _attack)

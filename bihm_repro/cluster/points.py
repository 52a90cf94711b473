"""The points of a sweep: recipes x seeds x grids, each with a run folder of its own."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bihm_repro.errors import InputError
from bihm_repro.files import parse_toml
from bihm_repro.recipes.recipe import Recipe, find_recipe
from bihm_repro.runs.evaluation import answers, is_up_to_date
from bihm_repro.runs.layout import RunDirectory, run_name

__all__ = ["Point", "parse_grid", "parse_seeds", "sweep_points"]

LONGEST_NAME = 200
"""Characters of a folder's name; file systems allow 255 bytes, and copies get a suffix."""


@dataclass(frozen=True)
class Point:
    """One run: a recipe by name or path, what is changed in it, and the run folder."""

    recipe: str
    folder: Path
    overrides: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the run folder."""
        return self.folder.name

    def load(self) -> Recipe:
        """Return the recipe with its changes; an InputError says what is wrong with it."""
        return Recipe.load(find_recipe(self.recipe), self.overrides)

    def arguments(self) -> list[str]:
        """Return the arguments of ``bihm train`` that say what to train where."""
        changes = [word for override in self.overrides for word in ("--set", override)]
        return [self.recipe, *changes, "--out", str(self.folder)]

    def is_complete(self, evaluated: bool = True) -> bool:
        """Whether the folder holds this very run, finished and, where asked for, evaluated."""
        run, recipe = RunDirectory(self.folder), self.load()
        try:
            status = run.read_status() if run.exists else {}
            if not status.get("finished") or run.recipe.fingerprint() != recipe.fingerprint():
                return False
            evaluation = run.read_evaluation()
            return not evaluated or (
                evaluation is not None
                and is_up_to_date(
                    evaluation, run.read_model().fingerprint, str(status.get("data_fingerprint"))
                )
                and answers(evaluation, recipe.evaluation, evaluation.get("n_examples", 0))
            )
        except InputError:
            return False  # `bihm train` says what is wrong with the folder


def sweep_points(
    recipes: Sequence[str],
    seeds: Sequence[int] = (),
    grid: Sequence[str] = (),
    results: str | Path = "results",
) -> list[Point]:
    """Return every combination of recipe, grid values and seed, all of them checked.

    Folders are named ``<recipe>[-<setting>=<value>...][-seed<N>]``.
    """
    axes = [parse_grid(text) for text in grid]
    keys = [key for key, _ in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"--grid {key}: is given twice; write all its values in one")
    points = []
    for recipe in dict.fromkeys(recipes):
        stem = run_name(find_recipe(recipe))
        for values in itertools.product(*(values for _, values in axes)):
            chosen = list(zip(keys, values))
            for seed in seeds or (None,):
                parts = [stem, *(f"{_short(key, keys)}={_slug(value)}" for key, value in chosen)]
                changes = [f"{key}={json.dumps(value, default=str)}" for key, value in chosen]
                if seed is not None:
                    parts.append(f"seed{seed}")
                    changes.append(f"seed={seed}")
                points.append(Point(recipe, Path(results) / "-".join(parts), tuple(changes)))
    _check(points)
    return points


def _check(points: Iterable[Point]) -> None:
    folders: dict[Path, Point] = {}
    for point in points:
        point.load()
        if len(point.name) > LONGEST_NAME:
            raise InputError(
                f"{point.folder}: the name has {len(point.name)} characters, at most "
                f"{LONGEST_NAME} are allowed; give shorter values, or a recipe for each"
            )
        other = folders.setdefault(point.folder, point)
        if other is not point:
            raise InputError(
                f"{point.folder}: two runs would have this folder ({other.recipe} "
                f"{' '.join(other.overrides)} and {point.recipe} {' '.join(point.overrides)}); "
                "sweep them apart, with another --results"
            )


def parse_seeds(text: str) -> tuple[int, ...]:
    """Read seeds such as ``0-4`` or ``1,3,10-12``.

    >>> parse_seeds("0-2,7")
    (0, 1, 2, 7)
    """
    seeds: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,18})(?:-([0-9]{1,18}))?\s*", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first or last - first >= 10_000:
            raise InputError(
                f"--seeds {text}: {part!r} is not a seed or a range of up to 10000, as in 0-4 or "
                "1,3,5"
            )
        seeds += range(first, last + 1)
    return tuple(dict.fromkeys(seeds))


def parse_grid(text: str) -> tuple[str, list[Any]]:
    """Read ``section.field=V1,V2`` or ``section.field=[V1, V2]``, values as in TOML or JSON.

    >>> parse_grid("training.l1=1e-3,4e-3")
    ('training.l1', [0.001, 0.004])
    >>> parse_grid("model.layers=[[9, 3], [9]]")
    ('model.layers', [[9, 3], [9]])
    >>> parse_grid("training.step_rule=adam,sgd")
    ('training.step_rule', ['adam', 'sgd'])
    """
    key, equals, given = text.partition("=")
    key = key.strip()
    if not equals or not key or not given.strip():
        raise InputError(
            f"--grid {text}: write it as section.field=V1,V2, such as training.l1=1e-3,4e-3"
        )
    try:
        values = parse_toml(f"values = [{given}]", key)["values"]
    except InputError:
        values = [word.strip() for word in given.split(",")]
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    for value in values:
        if values.count(value) > 1 or value == "":
            raise InputError(
                f"--grid {text}: has {value!r} twice, or an empty value; give each once"
            )
    if not values:
        raise InputError(f"--grid {text}: has no value; give one or more")
    return key, values


def _short(key: str, keys: Sequence[str]) -> str:
    """The last part of a setting's name, or all of it where another has the same last part."""
    last = key.rpartition(".")[2]
    return key if sum(other.rpartition(".")[2] == last for other in keys) > 1 else last


def _slug(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str).strip("[]")
    return re.sub(r"[^0-9A-Za-z.+_]+", "-", text) or "none"

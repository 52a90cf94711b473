"""Hostile seeds, grids and run folders in sweeps, and names of plugins: one line, or points.

A sweep stores nothing of its own: which points are complete it learns from their run folders.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import patch

import numpy as np

from bihm_repro.bricks import plugins
from bihm_repro.cluster.points import Point, parse_grid, parse_seeds, sweep_points
from bihm_repro.cluster.view import progress_line
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.parameters import read_parameters
from tests.torture.harness import Case, Failure, Group
from tests.torture.mutations import (
    NASTY_NUMBERS,
    NASTY_TEXTS,
    mutated_bytes,
    mutated_json,
    nasty_value,
)
from tests.torture.records import EVALUATION, STATUS

RECIPE = 'dataset = "bars"\nseed = 1\n[model]\nlayers = [2]\n'
KEYS = ("training.l1", "model.layers", "model.p_layer", "seed", "title", "phases.0.samples", "x.y")


def _prepare(folder: Path) -> dict[str, bytes]:
    """Return the files of a complete point."""
    (folder / "recipe.toml").write_text(RECIPE)
    np.savez(folder / "model.npz", w=np.ones(2, np.float32), meta=np.array("{}"))
    recipe = Recipe.load(folder / "recipe.toml")
    fingerprint = read_parameters(folder / "model.npz").fingerprint
    settings = recipe.evaluation
    evaluation = {
        **EVALUATION, "dataset": "bars", "n_examples": 500, "model_fingerprint": fingerprint,
        "samples": {str(k): EVALUATION["samples"]["100"] for k in settings.samples},
        "log_z2": {**EVALUATION["log_z2"], "samples": settings.z_samples},
        "ess": {**EVALUATION["ess"], "samples": settings.ess_samples,
                "examples": settings.ess_examples},
    }  # fmt: skip
    run = RunDirectory(folder / "run")
    run.write_recipe(recipe)
    status = {**STATUS, "recipe_fingerprint": recipe.fingerprint()}
    run.file("status.json").write_text(json.dumps(status))
    run.file("evaluation.json").write_text(json.dumps(evaluation))
    run.file("model.npz").write_bytes((folder / "model.npz").read_bytes())
    point = Point(str(folder / "recipe.toml"), run.path)
    if not point.is_complete():
        raise Failure("the point that is mutated is not complete")
    return {path.name: path.read_bytes() for path in run.path.iterdir() if path.is_file()}


def _folder(files: dict[str, bytes], case: Case) -> str:
    """Ask of a damaged run folder whether it holds the point."""
    chance, run = case.random, case.folder / "run"
    run.mkdir()
    (case.folder / "recipe.toml").write_text(RECIPE)
    chosen = chance.choice(list(files))
    for name, content in files.items():
        if name != chosen:
            (run / name).write_bytes(content)
        elif chance.random() < 0.1:
            continue
        elif name.endswith(".json") and chance.random() < 0.8:
            (run / name).write_bytes(mutated_json(json.loads(content), chance))
        else:
            (run / name).write_bytes(mutated_bytes(content, chance))
    point = Point(str(case.folder / "recipe.toml"), run)
    complete = point.is_complete()
    line = progress_line(RunDirectory(run).read_status(), point.load())
    if not line.isprintable():
        raise Failure(f"a line with control characters: {line!r}")
    return "complete" if complete else "not complete"


def _points(files: dict[str, bytes], case: Case) -> str:
    """Make points of hostile seeds and grids."""
    chance, path = case.random, case.folder / "a.toml"
    path.write_text(RECIPE)
    values = [str(nasty_value(chance)) for _ in range(chance.randrange(1, 4))]
    grid = f"{chance.choice((*KEYS, *NASTY_TEXTS))}={','.join(values)}"
    seeds = chance.choice(("0-2", "1,2", "-".join(map(str, chance.sample(NASTY_NUMBERS, 2))),
                           chance.choice(NASTY_TEXTS)))  # fmt: skip
    parse_grid(grid)
    points = sweep_points([str(path)], parse_seeds(seeds), [grid], case.folder / "results")
    for point in points:
        if point.folder.parent != case.folder / "results" or not point.name.isprintable():
            raise Failure(f"a folder elsewhere: {point.folder}")
        if point.is_complete():
            raise Failure(f"{point.folder} is complete, and does not exist")
    return "accepted"


def _plugins(files: dict[str, bytes], case: Case) -> str:
    """Name plugins that are not there or do not work, and layer types of them."""
    chance, folder = case.random, case.folder
    broken = f"torture_plugin_{case.number}"
    (folder / f"{broken}.py").write_bytes(
        chance.choice((b"raise ValueError('a\\nb')", b"\0", b"1 +", b"import nothing_like_it", b""))
    )
    others = chance.sample((*NASTY_TEXTS, "..", ".x", "os.path.", "sys:exit"), 2)
    text = ",".join(chance.choice(([broken, *others], others, [])))
    text = text.replace("\0", "").encode("utf-8", "replace").decode()
    path = folder / "a.toml"
    layer = json.dumps(chance.choice(NASTY_TEXTS[:20]).replace("\ud800", ""), ensure_ascii=False)
    path.write_text(f"{RECIPE}p_layer = {layer}\n", encoding="utf-8")
    with patch.dict(os.environ, {plugins.VARIABLE: text}), patch("sys.path", [str(folder)]):
        Recipe.load(path)
    return "accepted"


ATTACKS = (_folder, _points, _plugins)


def _attack(files: dict[str, bytes], case: Case) -> str:
    return ATTACKS[case.number % len(ATTACKS)](files, case)


GROUP = Group("sweeps", 0.7, _prepare, _attack)

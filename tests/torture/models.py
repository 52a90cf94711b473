"""Saved models and run folders with forged arrays or records: refused, or good for samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bihm_repro.api.storage import load_model
from bihm_repro.recipes.recipe import Recipe
from tests.torture.archives import _array
from tests.torture.harness import Case, Failure, Group
from tests.torture.mutations import mutated_json
from tests.torture.records import EVALUATION, LOG, STATUS

DIM, LAYERS = 4, (3, 2)


class Seed(NamedTuple):
    """The arrays of a model and its meta."""

    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]


def _prepare(folder: Path) -> list[Seed]:
    generator, sizes = np.random.default_rng(5), (DIM, *LAYERS)
    arrays: dict[str, np.ndarray] = {}
    for level, (lower, upper) in enumerate(zip(sizes, sizes[1:])):
        arrays[f"p{level}.W"] = generator.normal(size=(upper, lower)).astype(np.float32)
        arrays[f"p{level}.b"] = np.zeros(lower, np.float32)
        arrays[f"q{level}.W"] = generator.normal(size=(lower, upper)).astype(np.float32)
        arrays[f"q{level}.b"] = np.zeros(upper, np.float32)
    arrays[f"p{len(LAYERS)}.b"] = np.zeros(LAYERS[-1], np.float32)
    seeds = []
    for kind in ("bihm", "rws"):
        recipe = Recipe.from_dict({"dataset": "bars", "model": {"kind": kind, "layers": LAYERS}})
        meta = {
            "kind": kind, "layers": list(LAYERS), "data_dim": DIM, "recipe_fingerprint": "f",
            "recipe": recipe.to_dict(), "params": {"layers": list(LAYERS)},
            "history": {"epoch": [1, 2], "train_log_p": [-2.5, None]},
            "feature_names": ["a", "b", "c", "d"],
        }  # fmt: skip
        seeds.append(Seed(arrays, json.loads(json.dumps(meta))))
    for seed in seeds:
        np.savez(folder / "model.npz", **seed.arrays, meta=np.array(json.dumps(seed.meta)))
        if load_model(folder / "model.npz").sample(2).shape != (2, DIM):
            raise Failure("the model that is mutated does not work")
    return seeds


def _attack(seeds: list[Seed], case: Case) -> str:
    chance = case.random
    seed = chance.choice(seeds)
    arrays, meta = dict(seed.arrays), json.dumps(seed.meta)
    if chance.random() < 0.6:
        meta = mutated_json(seed.meta, chance).decode("utf-8", "replace").replace("\0", "")
    else:
        _change(arrays, case)
    path = case.folder / "model.npz"
    np.savez(path, **arrays, meta=np.array(meta))
    if chance.random() < 0.3:
        _make_run(case, seed)
        path = case.folder
    model = load_model(path)
    rows = model.sample(2)
    if rows.shape != (2, model.n_features_in_) or not np.isin(rows, (0, 1)).all():
        raise Failure(f"samples of shape {rows.shape}: {rows!r:.100}")
    return "accepted"


def _change(arrays: dict[str, np.ndarray], case: Case) -> None:
    chance = case.random
    name = chance.choice(list(arrays))
    kind = chance.randrange(4)
    if kind == 0:
        value = _array(chance)
        arrays[name] = value if not value.dtype.hasobject else np.zeros(0)
    elif kind == 1:
        del arrays[name]
    elif kind == 2:
        arrays[chance.choice(("p9.W", "q0.b", "x", "p0.W"))] = arrays.pop(name)
    else:
        arrays[name] = arrays[name].T if arrays[name].ndim == 2 else arrays[name][:-1]


def _make_run(case: Case, seed: Seed) -> None:
    recipe = Recipe.from_dict(seed.meta["recipe"])
    (case.folder / "recipe.toml").write_text(recipe.to_toml())
    (case.folder / "status.json").write_bytes(mutated_json(STATUS, case.random))
    (case.folder / "evaluation.json").write_text(json.dumps(EVALUATION))
    (case.folder / "log.csv").write_text(LOG)


GROUP = Group("models", 0.8, _prepare, _attack)

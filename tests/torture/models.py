"""Saved models and run folders with forged arrays or records: refused, or good for samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from bihm_repro.api import storage
from bihm_repro.api.storage import load_model
from bihm_repro.recipes.recipe import Recipe
from tests.torture.archives import _array
from tests.torture.harness import Case, Failure, Group
from tests.torture.mutations import mutated_json
from tests.torture.records import EVALUATION, LOG, STATUS

DIM, LAYERS = 4, (3, 2)
MODELS: dict[str, dict[str, Any]] = {
    "bihm": {"layers": LAYERS},
    "rws": {"layers": LAYERS, "p_layer": "darn", "q_layer": "nade", "prior": "nade",
            "nade_hidden": 2},
    "vae": {"layers": LAYERS, "hidden": [5, 6]},
    "nade": {"layers": [3]},
    "rbm": {"layers": [3]},
}  # fmt: skip


class Seed(NamedTuple):
    """The arrays of a model and its meta; ``record`` of a pretrained one."""

    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]
    record: dict[str, Any]


def _shapes(kind: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of the models above, by name."""
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, inputs: int, units: int) -> None:
        shapes.update({f"{name}.W": (inputs, units), f"{name}.b": (units,)})

    def nade(name: str, inputs: int, units: int, hidden: int) -> None:
        shapes.update({f"{name}.b": (units,), f"{name}.c": (hidden,)})
        shapes.update({f"{name}.{v}": (units, hidden) for v in "RV"})
        if inputs:
            shapes.update({f"{name}.W": (inputs, units), f"{name}.U": (inputs, hidden)})

    def gaussian(name: str, inputs: int, units: int, data: bool = False) -> None:
        linear(f"{name}.mlp.hidden0", inputs, 5)
        linear(f"{name}.mlp.hidden1", 5, 6)
        for part in ("",) if data else (".mean", ".log_variance"):
            linear(f"{name}{part}", 6, units)

    if kind == "nade":
        nade("p0", 0, DIM, 3)
        return shapes
    if kind == "rbm":
        return {"p0.W": (DIM, 3), "p0.b": (DIM,), "p0.c": (3,)}
    for level, (lower, upper) in enumerate(zip((DIM, *LAYERS), LAYERS)):
        p, q = f"p{level}", f"q{level}"
        if kind == "bihm":
            linear(p, upper, lower)
            linear(q, lower, upper)
        elif kind == "rws":
            shapes.update({f"{p}.W": (upper + lower, lower), f"{p}.b": (lower,)})
            nade(q, lower, upper, 2)
        else:
            gaussian(p, upper, lower, data=not level)
            gaussian(q, lower, upper)
    if kind == "bihm":
        shapes["p2.b"] = LAYERS[-1:]
    elif kind == "rws":
        nade("p2", 0, LAYERS[-1], 2)
    return shapes


def _prepare(folder: Path) -> list[Seed]:
    generator = np.random.default_rng(5)
    seeds = []
    for kind, settings in MODELS.items():
        arrays = {
            name: generator.normal(size=shape).astype(np.float32)
            for name, shape in _shapes(kind).items()
        }
        recipe = Recipe.from_dict({"dataset": "bars", "model": {"kind": kind, **settings}})
        meta = {
            "kind": kind, "layers": list(settings["layers"]), "data_dim": DIM,
            "recipe_fingerprint": "f", "recipe": recipe.to_dict(),
            "params": {"layers": list(settings["layers"])},
            "history": {"epoch": [1, 2], "train_log_p": [-2.5, None]},
            "feature_names": ["a", "b", "c", "d"],
        }  # fmt: skip
        record = {**STATUS, "evaluation": EVALUATION, "model_fingerprint": "m"}
        seeds.append(Seed(arrays, json.loads(json.dumps(meta)), record))
    for seed in seeds:
        np.savez(folder / "model.npz", **seed.arrays, meta=np.array(json.dumps(seed.meta)))
        _use(load_model(folder / "model.npz"))
    return seeds


def _use(model: Any) -> None:
    """Draw samples, and ask for what is known of the model."""
    rows = model.sample(2)
    if rows.shape != (2, model.n_features_in_) or not np.isin(rows, (0, 1)).all():
        raise Failure(f"samples of shape {rows.shape}: {rows!r:.100}")
    if model.kind not in ("nade", "rbm"):
        means = model.transform(rows)
        if means.shape != (2, LAYERS[0]) or not np.isfinite(means).all():
            raise Failure(f"means of shape {means.shape}: {means!r:.100}")
    for text in (repr(model), str(model.trained_), str(model.history_)):
        text.encode()


def _attack(seeds: list[Seed], case: Case) -> str:
    chance = case.random
    seed = chance.choice(seeds)
    arrays, meta = dict(seed.arrays), json.dumps(seed.meta)
    kind = chance.random()
    if kind < 0.5:
        meta = mutated_json(seed.meta, chance).decode("utf-8", "replace").replace("\0", "")
    elif kind < 0.9:
        _change(arrays, case)
    path = case.folder / "model.npz"
    np.savez(path, **arrays, meta=np.array(meta))
    if kind >= 0.9:
        return _pretrained(seed, case)
    if chance.random() < 0.3:
        _make_run(case, seed)
        path = case.folder
    _use(load_model(path))
    return "accepted"


def _pretrained(seed: Seed, case: Case) -> str:
    """Load a model that comes with the package, by name; its record is mutated."""
    (case.folder / "model.json").write_bytes(mutated_json(seed.record, case.random))
    with patch.object(storage, "PRETRAINED", case.folder):
        _use(load_model("model"))
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

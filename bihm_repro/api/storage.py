"""Trained models in files: saved ones, run folders, and those that come with the package.

A saved model is an .npz file of plain arrays, ``meta`` among them: a JSON text with the recipe, the
parameters of the Python class and the log. Reading one runs no code from it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bihm_repro.api.fitting import Trained
from bihm_repro.api.parameters import recipe_from
from bihm_repro.errors import InputError
from bihm_repro.files import read_json
from bihm_repro.models import registry
from bihm_repro.recipes.extends import suggestion
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.parameters import Parameters, read_parameters, write_parameters
from bihm_repro.samplers.base import check_sizes

if TYPE_CHECKING:
    from bihm_repro.api.model import Model

__all__ = ["PRETRAINED", "load_model", "pretrained_names", "save_model"]

PRETRAINED = Path(__file__).parent.parent / "pretrained"
RESULTS = Path("results")


def pretrained_names() -> list[str]:
    """Return the names of the trained models that come with the package."""
    return sorted(path.stem for path in PRETRAINED.glob("*.npz"))


def save_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write ``model`` to ``path``, which gets the suffix .npz where it has none."""
    path = Path(path)
    recipe = model._recipe or recipe_from(model, 0)
    params = {name: value for name, value in model._changed().items() if name != "callbacks"}
    history = model.history_.astype(object)
    meta = {
        "kind": model.kind,
        "layers": list(recipe.model.layers),
        "data_dim": model.n_features_in_,
        "recipe_fingerprint": recipe.fingerprint(),
        "recipe": recipe.to_dict(),
        "params": json.loads(json.dumps(params, default=_json)),
        "history": history.where(history.notna(), None).to_dict("list"),
        "feature_names": list(getattr(model, "feature_names_in_", [])),
    }
    text = json.dumps(meta, default=_json)
    write_parameters(
        path if path.suffix == ".npz" else path.with_name(f"{path.name}.npz"),
        model.parameters,
        json.loads(text),
    )


def load_model(path: str | os.PathLike[str]) -> Model:
    """Return a trained model by the path of a run folder or a file, or by name.

    A name, such as ``mnist`` or ``mushrooms``, is looked for in ``results/`` of the current folder,
    then among the models that come with the package.
    """
    found = _find(path)
    if found.is_dir():
        return _from_run(RunDirectory(found))
    values = read_parameters(found)
    if "recipe" in values.meta:
        return _from_file(found, values)
    if (found.parent / "recipe.toml").is_file():
        return _from_run(RunDirectory(found.parent), values)
    raise InputError(
        f"{found}: does not say what model it holds; give the run folder that it comes from, or "
        "a file written by save"
    )


def _find(path: str | os.PathLike[str]) -> Path:
    name = os.fspath(path)
    given = Path(name)
    bare = given.name == name and not given.suffix
    for candidate in [given, RESULTS / name, PRETRAINED / f"{name}.npz"] if bare else [given]:
        if candidate.is_file() or (candidate / "recipe.toml").is_file():
            return candidate
    if given.exists() and not bare:
        return given  # reading it names what is missing
    known = pretrained_names()
    raise InputError(
        f"{path}: is no run folder, no file and no trained model{suggestion(name, known)}; give "
        f"the path of a run folder or one of {', '.join(known) or 'none'}"
    )


def _from_run(run: RunDirectory, values: Parameters | None = None) -> Model:
    recipe = run.recipe
    values = run.read_model() if values is None else values
    model = _new(recipe, {"phases": recipe.phases})
    rows = run.read_log().to_dict("records")
    trained = {"run": str(run.path), **run.read_status(), "evaluation": run.read_evaluation()}
    return _filled(model, recipe, values, rows, trained, str(run.file("model.npz")))


def _from_file(path: Path, values: Parameters) -> Model:
    meta, beside = values.meta, path.with_suffix(".json")
    recipe = Recipe.from_dict(meta["recipe"], source=str(path))
    params, history, names = (meta.get(key, {}) for key in ("params", "history", "feature_names"))
    objects = isinstance(params, dict) and isinstance(history, dict)
    if not objects or not all(isinstance(item, list) for item in (names or [], *history.values())):
        raise InputError(f"{path}: its meta is not that of a saved model")
    model = _new(recipe, params)
    if names:
        import numpy as np

        model.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
    rows = [dict(zip(history, row)) for row in zip(*history.values())]
    trained = read_json(beside) if path.parent == PRETRAINED and beside.is_file() else {}
    return _filled(model, recipe, values, rows, trained, str(path))


def _new(recipe: Recipe, params: dict[str, Any]) -> Model:
    from bihm_repro.api import class_of

    cls = class_of(recipe.model.kind)
    given = {**vars(recipe.model), **vars(recipe.training), "random_state": recipe.seed, **params}
    return cls(**{name: value for name, value in given.items() if name in cls._names()})


def _filled(
    model: Any,
    recipe: Recipe,
    values: Parameters,
    rows: list[dict[str, Any]],
    trained: dict[str, Any],
    source: str,
) -> Any:
    names = getattr(model, "feature_names_in_", None)
    try:
        model._set_fitted(
            recipe, Trained(dict(values), rows, int(values.meta.get("data_dim") or 0)), names
        )
        _check_sizes(model, values.meta.get("data_dim"))
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    model.trained_ = trained
    return model


def _check_sizes(model: Any, data_dim: int | None) -> None:
    if registry.kind(model.kind).sampler is None:
        model.symbolic  # noqa: B018 (setting its values checks them)
    else:
        check_sizes(model.sampler, data_dim, model.settings.layers)
    names = getattr(model, "feature_names_in_", None)
    if names is not None and len(names) != model.n_features_in_:
        raise InputError(
            f"its meta has {len(names)} feature_names, its arrays have {model.n_features_in_} "
            "observed units"
        )


def _json(value: Any) -> Any:
    from bihm_repro.api.parameters import _plain

    plain = _plain(value)
    if plain is value:
        raise TypeError
    return plain

"""Initial parameters that come from another run: ``bihm train --from``.

The frozen recipe says where they came from and has their fingerprint, which is a part of the
recipe's own: a run started from other parameters is another run.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from bihm_repro.errors import InputError
from bihm_repro.recipes.recipe import InitialRecipe, Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.parameters import Parameters, read_parameters

__all__ = ["check_source", "read_initial", "set_initial", "with_initial"]


def read_initial(source: str | os.PathLike[str]) -> Parameters:
    """Read the parameters of a run folder or of an .npz file."""
    if Path(source).is_dir():
        return RunDirectory(source).read_model()
    if not Path(source).is_file():
        raise InputError(f"{source}: there is no such run folder or model file")
    return read_parameters(source)


def check_source(source: str, folder: RunDirectory, fresh: bool) -> None:
    """Refuse a source that cannot be read, or that a restart of ``folder`` would move away."""
    read_initial(source)
    path = Path(source).resolve()
    if fresh and folder.path.resolve() in (path, *path.parents):
        raise InputError(
            f"--from {source}: is the run that --fresh would replace; choose another folder "
            "with --out"
        )


def with_initial(recipe: Recipe, source: str | None, folder: RunDirectory) -> Recipe:
    """Return ``recipe`` with its initial parameters named: those of ``source``.

    Where no source is given, a run that is in ``folder`` keeps its own.
    """
    if source is not None:
        initial = InitialRecipe(str(source), read_initial(source).fingerprint)
    elif folder.file("recipe.toml").is_file() and not recipe.initial.fingerprint:
        initial = folder.recipe.initial
    else:
        return recipe
    return replace(recipe, initial=initial)


def set_initial(model: Any, recipe: Recipe) -> None:
    """Give ``model`` the initial parameters that ``recipe`` names."""
    source, wanted = recipe.initial.source, recipe.initial.fingerprint
    found = read_initial(source)
    if found.fingerprint != wanted:
        raise InputError(
            f"{source}: holds other parameters than when the run was started from it; "
            "bring those back, or restart with --from and --fresh"
        )
    try:
        model.set_values(found)
    except InputError as error:
        raise InputError(f"{source}: does not fit the recipe's model: {error}") from None

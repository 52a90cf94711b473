"""Find recipes by name, and read one with the recipes that it extends.

A recipe with ``extends = "mnist"`` states only what differs from that one: a setting replaces the
setting, ``[[phases]]`` replace all of its phases. Names are those of ``run_exps/``; a path that
ends in .toml, and a name that ``run_exps/`` does not have, are relative to the folder of the file.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bihm_repro.errors import InputError
from bihm_repro.files import read_toml

__all__ = ["find_recipe", "read_recipe", "recipe_folders", "recipe_names", "suggestion"]


def recipe_folders() -> list[Path]:
    """Return where recipes are looked for: ``run_exps/`` here, then the package's own."""
    return [Path("run_exps"), Path(__file__).parent.parent / "run_exps"]


def recipe_names() -> list[str]:
    """Return the names of all recipes of the folders, such as ``rws/mnist``."""
    return sorted(
        {
            path.relative_to(folder).with_suffix("").as_posix()
            for folder in recipe_folders()
            for path in folder.rglob("*.toml")
        }
    )


def find_recipe(name: str) -> Path:
    """Return the path of a recipe given as a path or as a name in ``run_exps/``.

    >>> find_recipe("rws/mnist")  # doctest: +SKIP
    PosixPath('run_exps/rws/mnist.toml')
    """
    found = Path(name) if name.endswith(".toml") else _named(name)
    if found is None:
        known = recipe_names()
        raise InputError(
            f"{name}: no such recipe in run_exps/{suggestion(name, known)}; "
            f"give a path ending in .toml or one of {', '.join(known)}"
        )
    return found


def read_recipe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of the recipe at ``path``, with what it takes from others."""
    chain: list[Path] = []
    content: dict[str, Any] = {}
    following: Path | None = Path(path)
    while following is not None:
        if any(following.resolve() == other.resolve() for other in chain):
            names = " -> ".join(item.stem for item in [*chain, following])
            raise InputError(
                f"{path}: its recipes extend each other in a circle ({names}); "
                "remove one extends line"
            )
        chain.append(following)
        parent = _read(following)
        extends = parent.pop("extends", None)
        content = _merged(parent, content)
        following = None if extends is None else _extended(extends, following)
    return content


def suggestion(value: Any, known: Iterable[str]) -> str:
    """Return a question that names the nearest of ``known``, or nothing."""
    near = difflib.get_close_matches(str(value), list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _named(name: str) -> Path | None:
    paths = [folder / f"{name}.toml" for folder in recipe_folders()]
    # os.path: a name that is too long is no file, and no error
    return next((path for path in paths if os.path.isfile(path)), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such recipe") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read as a recipe: {error}") from None


def _extended(name: Any, path: Path) -> Path:
    """Return the path of the recipe that the one at ``path`` extends by ``name``."""
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise InputError(
            f"{path}: extends = {name!r}: must be the name of a recipe in run_exps/ "
            "or the path of a .toml file"
        )
    beside = path.parent / (name if name.endswith(".toml") else f"{name}.toml")
    found = None if name.endswith(".toml") else _named(name)
    if found is None and not os.path.isfile(beside):
        raise InputError(
            f"{path}: extends = {name!r}: there is no such recipe in run_exps/ nor "
            f"{beside}{suggestion(name, recipe_names())}"
        )
    return found or beside


def _merged(parent: dict[str, Any], child: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of ``parent`` with those of ``child`` in their place."""
    content = {**parent, **child}
    for name, value in parent.items():
        if isinstance(value, dict) and isinstance(child.get(name), dict):
            content[name] = {**value, **child[name]}
    return content

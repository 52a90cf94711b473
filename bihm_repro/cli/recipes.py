"""``bihm recipes``: list the recipes, show one with all its settings, write one for own data."""

from __future__ import annotations

import argparse
from pathlib import Path

from bihm_repro.errors import InputError

HELP = "list the recipes, show one complete, or write a commented one for your own data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add = parser.add_argument
    add(
        "action",
        nargs="?",
        choices=("list", "show", "new"),
        default="list",
        help="list: one line each; show NAME: every setting; new: a template",
    )
    add("name", nargs="?", help="recipe to show: a name of the list, or a path")
    add("--data", metavar="NAME_OR_HDF5", help="new: the data set to train on")
    add("--out", metavar="FILE", help="new: the file to write (<data>.toml)")


def run(args: argparse.Namespace) -> int:
    """List, show or write."""
    if args.action == "show":
        _show(args.name)
    elif args.action == "new":
        _write_template(args.data, args.out)
    else:
        _list()
    return 0


def _list() -> None:
    from bihm_repro.progress import printable
    from bihm_repro.recipes.extends import recipe_names
    from bihm_repro.recipes.recipe import Recipe, find_recipe

    names = recipe_names()
    width = max(map(len, names), default=0)
    for name in names:
        try:
            recipe = Recipe.load(find_recipe(name))
        except InputError as error:
            print(printable(f"{name:<{width}}  cannot be read: {error}"))
            continue
        sizes, count = "-".join(map(str, recipe.model.layers)), len(recipe.phases)
        phases = f"{count} phase{'s' if count > 1 else ''}"
        title = recipe.title or recipe.dataset
        print(printable(f"{name:<{width}}  {title} ({recipe.model.kind} {sizes}, {phases})"))


def _show(name: str | None) -> None:
    from bihm_repro.recipes.recipe import Recipe, find_recipe

    if name is None:
        raise InputError("recipes show: give the name of a recipe; bihm recipes lists them")
    print(Recipe.load(find_recipe(name)).to_toml(), end="")


def _write_template(data: str | None, out: str | None) -> None:
    from bihm_repro.datasets.registry import DATASETS
    from bihm_repro.files import write_text
    from bihm_repro.recipes.template import template

    if data is None:
        raise InputError(
            "recipes new: give your data set with --data NAME_OR_HDF5 "
            "(bihm data --help says how to import one)"
        )
    path = Path(out or f"{Path(data).stem}.toml")
    if path.exists():
        raise InputError(f"{path}: exists already; choose another file with --out")
    write_text(path, template(data))
    print(f"{path} written; train it with: bihm train {path}")
    if data not in DATASETS and not any(
        Path(name).exists() for name in (data, f"data/{data}.hdf5")
    ):
        print(f"before that: bihm data import FILE --name {Path(data).stem}")

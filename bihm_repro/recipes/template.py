"""A commented recipe for a user's own data, generated from the declared settings."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from bihm_repro.files import to_toml
from bihm_repro.recipes.recipe import SECTIONS, Phase, Recipe

__all__ = ["template"]

LAYERS = [100, 50, 20]
PHASE = ("samples", "learning_rate", "patience")
"""What is written out of each of the two phases; these are a phase's first settings."""


def template(dataset: str) -> str:
    """Return the text of a recipe for ``dataset``; every setting at its default is a comment."""
    recipe = Recipe.from_dict({"dataset": dataset, "title": dataset, "model": {"layers": LAYERS}})
    lines = [
        "# Train with: bihm train THIS_FILE. What is commented out is at its default.",
        '# To start from another recipe instead, write: extends = "mushrooms"',
        *_settings(recipe, shown=("dataset", "title")),
    ]
    for name in SECTIONS:
        if name == "monitor":
            lines += ["", "[[phases]]", *_settings(Phase(learning_rate=1e-2, patience=30), PHASE)]
            lines += ["", "[[phases]]", *_settings(Phase(patience=30), PHASE)[: len(PHASE)]]
        if name != "initial":
            lines += ["", f"[{name}]", *_settings(getattr(recipe, name), ("layers",))]
    return "\n".join(lines) + "\n"


def _settings(values: Any, shown: tuple[str, ...]) -> list[str]:
    lines = []
    for item in fields(values):
        if "setting" not in item.metadata:
            continue
        value = getattr(values, item.name)
        text = f"{item.name} =" if value is None else _line(item.name, value)
        comment = "" if item.name in shown else "# "
        doc = item.metadata["doc"] or item.metadata["setting"].allowed
        choices = item.metadata["setting"].choices
        doc += f": {', '.join(choices)}" if choices else ""
        lines.append(f"{comment}{text}    # {doc}")
    return lines


def _line(name: str, value: Any) -> str:
    """Return a setting as one line of TOML."""
    text = to_toml({name: list(value) if isinstance(value, tuple) else value})
    return " ".join(text.split()).replace("[ ", "[").replace(", ]", "]")

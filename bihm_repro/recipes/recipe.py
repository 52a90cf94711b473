"""Recipes: what to train, on what, and how; typed, checked, and written as TOML.

The defaults are those of the paper's experiments (section 4): Adam on mini-batches of 100,
biases of -1, an L1 penalty of 1e-3, K = 10 samples at a learning rate of 1e-3 until the
validation log-likelihood stops improving, then K = 100 at 3e-4. A recipe states only what differs.

The settings are those of ``sections``.

>>> Recipe.from_dict({"dataset": "mushrooms", "model": {"layers": [150, 100]}}).model.kind
'bihm'
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bihm_repro.errors import InputError
from bihm_repro.files import to_toml
from bihm_repro.recipes import parsing
from bihm_repro.recipes.checks import check_together
from bihm_repro.recipes.extends import find_recipe, read_recipe
from bihm_repro.recipes.fields import integer, setting, text
from bihm_repro.recipes.sections import (
    PAPER_PHASES,
    SECTIONS,
    EvaluationRecipe,
    InitialRecipe,
    ModelRecipe,
    MonitorRecipe,
    Phase,
    TrainingRecipe,
)

__all__ = [
    "EvaluationRecipe",
    "InitialRecipe",
    "ModelRecipe",
    "MonitorRecipe",
    "Phase",
    "Recipe",
    "SECTIONS",
    "TrainingRecipe",
    "find_recipe",
]


@dataclass(frozen=True)
class Recipe:
    """One experiment, complete: with a data set and an engine it determines every number."""

    dataset: str = setting(
        "",
        text("the name of a data set or the path of an .hdf5"),
        "name of a data set, or path of an .hdf5",
    )
    seed: int = setting(0, integer(0), "of initial values, mini-batches and samples")
    title: str = setting(
        "", text("a line of text", empty=True), "for tables and figures", decides=False
    )
    model: ModelRecipe = field(default_factory=ModelRecipe)
    training: TrainingRecipe = field(default_factory=TrainingRecipe)
    phases: tuple[Phase, ...] = PAPER_PHASES
    monitor: MonitorRecipe = field(default_factory=MonitorRecipe)
    evaluation: EvaluationRecipe = field(default_factory=EvaluationRecipe)
    initial: InitialRecipe = field(default_factory=InitialRecipe)

    @classmethod
    def load(cls, path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Recipe:
        """Read the recipe at ``path``, then apply ``overrides`` such as ``model.layers=[9, 3]``."""
        content = read_recipe(os.fspath(path))
        return cls.from_dict(content, source=str(path), overrides=overrides)

    @classmethod
    def from_dict(
        cls, content: Mapping[str, Any], source: str = "recipe", overrides: Iterable[str] = ()
    ) -> Recipe:
        """Check ``content`` (as read from TOML) and make a recipe of it."""
        if not isinstance(content, Mapping):
            raise InputError(f"{source}: a recipe is a table of settings, not {content!r:.40}")
        settings = copy.deepcopy(dict(content))
        for assignment in overrides:
            if assignment.strip().startswith("phases."):
                phases = [parsing.plain(asdict(phase)) for phase in PAPER_PHASES]
                settings.setdefault("phases", phases)
            parsing.override(settings, assignment)
        known = [item.name for item in fields(cls)]
        parsing.refuse_unknown(settings, known, "", source)
        values: dict[str, Any] = {}
        for name in ("dataset", "seed", "title"):
            values[name] = parsing.checked(cls, name, settings, "", source)
        for name, kind in SECTIONS.items():
            values[name] = parsing.section(kind, settings.get(name, {}), name, source)
        if "phases" in settings:
            values["phases"] = _phases(settings["phases"], source)
        recipe = cls(**values)
        check_together(recipe, source)
        return recipe

    def to_dict(self) -> dict[str, Any]:
        """Return every setting as plain lists, tables and scalars, unset optional ones left out."""
        return parsing.plain(asdict(self))

    def to_toml(self) -> str:
        """Write every setting, so that a frozen recipe outlives a change of the defaults."""
        content = self.to_dict()
        if self.initial == InitialRecipe():
            del content["initial"]
        return to_toml(content)

    def fingerprint(self) -> str:
        """Return the SHA-256 of what decides the trained model and its log.

        The title, the settings of the final evaluation and the seconds between checkpoints
        change neither, so a run folder stays valid when they change. Settings added later count
        only where they are not at their default.
        """
        content = self._deciding(defaults=False)
        encoded = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(encoded.encode("utf-8")).hexdigest()

    def _deciding(self, defaults: bool = True) -> dict[str, Any]:
        """What decides the result; without ``defaults``, no later settings at their default."""
        content = parsing.deciding(self, defaults)
        content["phases"] = [parsing.deciding(phase, defaults) for phase in self.phases]
        for name in SECTIONS:
            if settings := parsing.deciding(getattr(self, name), defaults):
                content[name] = settings
        return content

    def changes(self, other: Recipe) -> dict[str, tuple[Any, Any]]:
        """Return the settings that make the fingerprints differ: ``a.b`` to mine and theirs.

        Where one has more phases, their number differs and the others' settings count.
        """
        mine, theirs = self._deciding(), other._deciding()
        common = min(len(self.phases), len(other.phases))
        for content in (mine, theirs):
            content["number of phases"] = len(content["phases"])
            content["phases"] = dict(enumerate(content["phases"][:common]))
        mine, theirs = parsing.flat(mine), parsing.flat(theirs)
        return {
            name: (mine.get(name), theirs.get(name))
            for name in sorted({*mine, *theirs})
            if mine.get(name) != theirs.get(name)
        }

    def differences(self, other: Recipe) -> list[str]:
        """Name the settings that make the fingerprints differ, as ``a.b: mine, not theirs``."""
        return [
            f"{name}: {mine!r}, not {theirs!r}"
            for name, (mine, theirs) in self.changes(other).items()
        ]


def _phases(content: Any, source: str) -> tuple[Phase, ...]:
    if not isinstance(content, (list, tuple)) or not content:
        raise InputError(f"{source}: phases = {content!r}: must be one or more [[phases]] tables")
    return tuple(
        parsing.section(Phase, phase, f"phases.{index}", source)
        for index, phase in enumerate(content)
    )

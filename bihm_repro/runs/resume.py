"""What may change in the recipe of a run: what it has not trained yet.

A frozen recipe describes all of its run, so a change must not contradict what was trained: settings
of the model and of past phases are fixed, the current phase may become longer or shorter but not
shorter than it is already, and the phases after it are free. A finished run may get further phases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.record import Status

__all__ = ["contradictions", "next_phase", "place"]

UNUSED_COUNTER = 2**40
"""A random counter that no run has come to, for runs whose status.json does not name their own."""


def contradictions(mine: Recipe, new: Recipe, status: Mapping[str, Any]) -> list[str]:
    """Return the changes from ``mine`` to ``new`` that contradict a run's past, as lines.

    ``status`` says how far the run has come, as the record of its state does.
    """
    return [
        f"{name}: {old!r}, not {value!r}"
        for name, (old, value) in mine.changes(new).items()
        if not _lies_ahead(name, old, value, status)
    ]


def next_phase(status: Mapping[str, Any], phases: int) -> Status | None:
    """Return where a finished run continues once its recipe has ``phases``; None where it ends.

    ``status`` is that of status.json.
    """
    phase, epochs = status.get("phase", 0) + 1, status.get("epochs", 0)
    if not status.get("finished") or phase >= phases:
        return None
    return Status(
        phase=phase,
        phase_start=epochs,
        epoch=epochs,
        updates=status.get("updates", 0),
        draw=status.get("draw", UNUSED_COUNTER),
        seconds=status.get("seconds", 0.0),
        best_valid=status.get("best_valid"),
        best_epoch=status.get("best_epoch", 0),
    )


def place(status: Mapping[str, Any]) -> str:
    """Say how far a run has come, counting phases from 0 as a recipe's settings do."""
    if status.get("finished"):
        return "is finished"
    over = "at the end of" if status.get("phase_stop") else "in"
    return f"is {over} phases.{status.get('phase', 0)}, {_epochs_done(status)} epochs into it"


def _epochs_done(status: Mapping[str, Any]) -> int:
    return status.get("epoch", 0) - status.get("phase_start", 0)


def _lies_ahead(name: str, old: Any, value: Any, status: Mapping[str, Any]) -> bool:
    phase = status.get("phase", 0)
    if name == "number of phases":
        return value > phase
    section, _, rest = name.partition(".")
    if section != "phases":
        return False
    number, _, setting = rest.partition(".")
    if int(number) != phase or status.get("phase_stop") or status.get("finished"):
        return int(number) > phase
    if not status.get("phase_updates"):
        return True
    if setting == "max_epochs":
        return value > _epochs_done(status)
    return setting == "patience" and value >= old

"""Run folders side by side: their validation, what differs in their recipes, their curves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bihm_repro.errors import InputError
from bihm_repro.files import write_text
from bihm_repro.recipes.parsing import flat
from bihm_repro.report.figures.curves import plot_comparison
from bihm_repro.report.figures.style import save_plot, style_context
from bihm_repro.report.footnotes import marks_of, notes_for
from bihm_repro.report.methods import method_of, negative_log_likelihood
from bihm_repro.report.tables.runs import training_state
from bihm_repro.report.tables.table import Cell, Column, Table, estimate_cell, to_csv, to_markdown
from bihm_repro.runs.reader import Run, read_run

__all__ = ["comparison_table", "differences", "read_named_runs", "write_comparison"]

LONGEST = 60
"""Characters of a setting that are shown."""


def read_named_runs(paths: Iterable[str | Path]) -> tuple[list[Run], list[str]]:
    """Read the run folders ``paths``; return them, and a line for each that cannot be read."""
    runs, complaints = [], []
    for path in paths:
        try:
            runs.append(replace(read_run(path), name=str(path).rstrip("/")))
        except (InputError, OSError) as error:
            complaints.append(f"left out: {error}")
    if not runs:
        raise InputError("; ".join(complaints) or "no run folder was given")
    return runs, complaints


def differences(runs: Sequence[Run]) -> dict[str, list[str | None]]:
    """Return the recipe's fields in which ``runs`` differ, each with its value in every run."""
    phases = [dict(enumerate(run.recipe.get("phases", ()), 1)) for run in runs]
    recipes = [flat({**run.recipe, "phases": found}) for run, found in zip(runs, phases)]
    names = dict.fromkeys(name for recipe in recipes for name in recipe if name != "title")
    values = {name: [_text(recipe[name]) if name in recipe else None for recipe in recipes]
              for name in names}  # fmt: skip
    return {name: column for name, column in values.items() if len(set(column)) > 1}


def _text(value: Any) -> str:
    if isinstance(value, list):
        text = ", ".join(map(_text, value))
    else:
        text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _validation(run: Run) -> float | None:
    """The best -log p on validation, as the run's status has it."""
    best = run.status.get("best_valid")
    if isinstance(best, (int, float)) and math.isfinite(best):
        return -float(best)
    return None


def _rank(run: Run) -> tuple[float, str]:
    valid = _validation(run)
    return (math.inf if valid is None else valid, run.name)


def comparison_table(runs: Sequence[Run]) -> Table:
    """One row per run, the best on validation first; test numbers are shown and decide nothing."""
    runs = sorted(runs, key=_rank)
    differing = differences(runs)
    columns = [
        Column("run", "run", left=True),
        Column("model", "model", left=True),
        Column("valid_nll_p", "valid -log p"),
        Column("valid_samples", "K"),
        Column("test_nll_p", "test -log p", estimates=True),
        Column("updates", "updates"),
        Column("minutes", "minutes"),
        Column("state", "training", left=True),
        *(Column(name, name, left=True) for name in differing),
    ]
    rows = [
        [*_row(run), *(Cell(values[index]) for values in differing.values())]
        for index, run in enumerate(runs)
    ]
    notes = [
        "Sorted by the best validation -log p; with another number K of samples, or on another "
        "data set, it is not comparable.",
        *notes_for(runs),
    ]
    if len(runs) > 1 and not differing:
        notes.append("The recipes do not differ.")
    return Table("comparison", "Comparison of runs", columns, rows, notes)


def _row(run: Run) -> list[Cell]:
    seconds, counts = run.status.get("seconds"), run.validation_counts
    return [
        Cell(run.name),
        Cell(method_of(run)),
        Cell(_validation(run)),
        Cell(int(counts.iloc[-1]) if len(counts) else None),
        estimate_cell(negative_log_likelihood(run), marks=marks_of(run)),
        Cell(run.status.get("updates")),
        Cell(None if seconds is None else float(seconds) / 60, decimals=1),
        Cell(training_state(run)),
    ]


def write_comparison(runs: Sequence[Run], folder: str | Path) -> tuple[list[Path], list[str]]:
    """Write ``comparison.md``, ``.csv`` and ``.png`` with the curves; return paths and gaps."""
    folder, table = Path(folder), comparison_table(runs)
    paths = [folder / "comparison.md", folder / "comparison.csv"]
    write_text(paths[0], to_markdown(table))
    write_text(paths[1], to_csv(table))
    with style_context():
        plot = plot_comparison(sorted(runs, key=_rank))
        if plot.figure is not None:
            plot.numbers.clear()
            paths += save_plot(plot, folder / "comparison", formats=("png",))
    return paths, plot.missing

"""What the paper's schedule gives as it is written, and centred, beside our own recipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bihm_repro.report import paper
from bihm_repro.report.footnotes import marks_of, notes_for
from bihm_repro.report.methods import method_of, negative_log_likelihood
from bihm_repro.report.tables.table import Cell, Column, Table, estimate_cell
from bihm_repro.report.tables.uci import uci_run
from bihm_repro.runs.reader import Run

__all__ = ["changes", "paper_run", "schedules_table"]

GROUP = "paper/"
"""What the names of runs with the paper's schedule begin with."""


def paper_run(runs: Sequence[Run], dataset: str, centred: bool) -> Run | None:
    """Return the evaluated run of the paper's schedule on a set, as written or centred."""
    found = (
        run
        for run in sorted(runs, key=lambda run: (run.seed, run.name))
        if run.name.startswith(GROUP)
        and run.dataset == dataset
        and method_of(run) == "BiHM"
        and run.evaluation is not None
        and bool(run.recipe.get("training", {}).get("centred")) == centred
    )
    return next(found, None)


def _over_phases(run: Run, key: str) -> set[Any]:
    """The values of a setting in a run's phases, or of training where a phase has none."""
    default = run.recipe.get("training", {}).get(key)
    return {phase.get(key, default) for phase in run.recipe.get("phases", [])}


def changes(ours: Run, theirs: Run) -> list[str]:
    """Return in which respects the recipe of ``ours`` differs from that of ``theirs``."""
    (model, other_model), (training, other_training) = (
        [run.recipe.get(section, {}) for run in (ours, theirs)] for section in ("model", "training")
    )
    differ = {
        "initial weights": model.get("weights") != other_model.get("weights"),
        "rates": _over_phases(ours, "learning_rate") != _over_phases(theirs, "learning_rate"),
        "L1": _over_phases(ours, "l1") != _over_phases(theirs, "l1")
        or training.get("l1_levels") != other_training.get("l1_levels")
        or training.get("l1_side", "both") != other_training.get("l1_side", "both"),
        "total variation": (_over_phases(ours, "total_variation") - {0.0, None})
        != (_over_phases(theirs, "total_variation") - {0.0, None}),
        "restarts": any(_over_phases(ours, "restart_dead"))
        != any(_over_phases(theirs, "restart_dead")),
        "layers apart": any(_over_phases(ours, "above")) != any(_over_phases(theirs, "above")),
        "sleep term": any(_over_phases(ours, "sleep")) != any(_over_phases(theirs, "sleep")),
        "averages": _over_phases(ours, "average_over") != _over_phases(theirs, "average_over"),
        "K": _over_phases(ours, "samples") != _over_phases(theirs, "samples"),
        "centring": bool(training.get("centred")) != bool(other_training.get("centred")),
    }
    return [name for name, different in differ.items() if different]


def schedules_table(runs: Sequence[Run]) -> Table:
    """Test -log p by the paper's schedule, the same centred, and our recipe, set by set."""
    rows, present = [], []
    for entry in paper.UCI:
        written, centred = (paper_run(runs, entry.name, flag) for flag in (False, True))
        reference = written or centred
        if reference is None:
            continue
        ours = uci_run([run for run in runs if not run.name.startswith(GROUP)], entry)
        shown = [written, centred, ours]
        present += [run for run in shown if run is not None]
        cells = [estimate_cell(negative_log_likelihood(r), 2, marks_of(r)) for r in shown]
        updates = [Cell(run.updates if run else None) for run in shown]
        differs = ", ".join(changes(ours, reference)) if ours else None
        rows.append(
            [
                Cell(entry.name),
                Cell(entry.nll_p),
                *(cell for pair in zip(cells, updates) for cell in pair),
                Cell(differs or None),
            ]
        )
    columns = (
        Column("set", "set", left=True),
        Column("paper_nll_p", "paper"),
        Column("written_nll_p", "as written", estimates=True),
        Column("written_updates", "updates"),
        Column("centred_nll_p", "centred", estimates=True),
        Column("centred_updates", "updates"),
        Column("ours_nll_p", "our recipe", estimates=True),
        Column("ours_updates", "updates"),
        Column("changes", "our recipe changes", left=True),
    )
    notes = [
        "Test -log p. As written: K = 10 at 1e-3 until ten epochs bring no better validation, then "
        "K = 100 at 3e-4; L1 of 1e-3 on all weights. Centred: the same with centred updates.",
        *notes_for(present),
    ]
    if not rows:
        notes = ["No run with the paper's schedule has been evaluated."]
    return Table("schedules", "The paper's schedule beside our recipes", columns, rows, notes)

"""Tables over all run folders: which run made which number, and the spread over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pandas as pd

from bihm_repro.report import paper
from bihm_repro.report.footnotes import marks_of, notes_for
from bihm_repro.report.methods import method_of, negative_log_likelihood, nll_value
from bihm_repro.report.tables.contest import without_contest
from bihm_repro.report.tables.table import Cell, Column, Table, difference, estimate_cell
from bihm_repro.runs.reader import Estimate, Run, seed_groups

__all__ = ["active_units", "logged_units", "runs_table", "seeds_table", "training_state"]


def runs_table(runs: Sequence[Run]) -> Table:
    """All run folders, evaluated or not: how far each went, how long it took, which commit.

    Those of the contest have a table of their own, and are left out here and of the seeds.
    """
    runs = without_contest(runs)
    columns = (
        Column("run", "run", left=True),
        Column("set", "set", left=True),
        Column("model", "model", left=True),
        Column("seed", "seed"),
        Column("nll_p", "-log p", r"$-\log p(x)$", estimates=True),
        Column("samples", "K"),
        Column("epochs", "epochs"),
        Column("updates", "updates"),
        Column("minutes", "minutes"),
        Column("state", "training", left=True),
        Column("engine", "engine", left=True),
        Column("commit", "commit", left=True),
    )
    notes = [
        "-log p: on the test split, as written in the run's evaluation.json. epochs, updates, "
        "minutes: of training so far. commit: of the code that trained it.",
        *notes_for(runs),
    ]
    if not runs:
        notes = ["No run folder was found."]
    return Table("runs", "Runs", columns, [_row(run) for run in runs], notes)


def active_units(run: Run) -> list[int]:
    """Return the active units of each layer, from the data up: as evaluated, else as logged."""
    evaluated = (run.evaluation or {}).get("active_units")
    return evaluated if evaluated else logged_units(run.log)


def logged_units(log: pd.DataFrame) -> list[int]:
    """Return the last logged numbers of active units, layer by layer from the data up."""
    measured = log["active_units"].dropna() if "active_units" in log else pd.Series()
    return [int(count) for count in str(measured.iloc[-1]).split()] if len(measured) else []


def training_state(run: Run) -> str:
    """Return how far training has come, in words."""
    if run.finished:
        return "finished"
    if run.status.get("finished"):
        cut = run.status.get("cut_by_budget")
        return "ended by its time budget" if cut else "finished after this evaluation"
    phase, phases = run.status.get("phase"), run.status.get("phases")
    if phase is None or phases is None:
        return "not finished"
    return f"in phase {min(phase + 1, phases)} of {phases}"


def _row(run: Run) -> list[Cell]:
    status = run.status
    seconds, engine = status.get("seconds"), status.get("engine")
    if isinstance(engine, dict):
        engine = " ".join(str(engine[key]) for key in ("name", "version") if key in engine)
    commit = status.get("commit") or (run.evaluation or {}).get("commit")
    return [
        Cell(run.name),
        Cell(run.dataset),
        Cell(method_of(run)),
        Cell(run.seed),
        estimate_cell(negative_log_likelihood(run), marks=marks_of(run)),
        Cell(run.sample_counts[-1] if run.sample_counts else None),
        Cell(status.get("epochs")),
        Cell(status.get("updates")),
        Cell(None if seconds is None else float(seconds) / 60, decimals=1),
        Cell(training_state(run)),
        Cell(engine),
        Cell(str(commit)[:10] if commit else None),
    ]


def _published(run: Run) -> float | None:
    """The paper's -log p of the same method on the same set."""
    method = method_of(run)
    if run.dataset in paper.UCI_BY_NAME:
        entry = paper.UCI_BY_NAME[run.dataset]
        names = {"RWS": "RWS - SBN", "RWS-NADE": "RWS - NADE"}
        return entry.nll_p if method == "BiHM" else entry.quoted.get(names.get(method, method))
    if run.dataset == "binarized_mnist":
        return next((row.estimate for row in paper.MNIST if row.method == method), None)
    return None


def seeds_table(runs: Sequence[Run]) -> Table:
    """Mean and spread over seeds of each recipe that was run with more than one."""
    rows, present = [], []
    for group in seed_groups(run for run in without_contest(runs) if run.evaluation is not None):
        group = list({run.seed: run for run in reversed(group)}.values())[::-1]  # each seed once
        if len(group) < 2:
            continue
        present += group
        values = [nll_value(run) for run in group]
        mean, published = statistics.fmean(values), _published(group[0])
        marks = "".join(dict.fromkeys("".join(marks_of(run) for run in group)))
        rows.append(
            [
                Cell(group[0].dataset),
                Cell(method_of(group[0])),
                Cell(len(group)),
                Cell(mean, marks=marks),
                Cell(statistics.stdev(values)),
                Cell(min(values)),
                Cell(max(values)),
                Cell(published),
                difference(Estimate(mean), published),
                Cell(", ".join(run.name for run in group)),
            ]
        )
    columns = (
        Column("set", "set", left=True),
        Column("model", "model", left=True),
        Column("seeds", "seeds"),
        Column("mean_nll_p", "mean -log p", r"mean $-\log p(x)$"),
        Column("spread", "spread"),
        Column("lowest", "lowest"),
        Column("highest", "highest"),
        Column("paper", "paper"),
        Column("difference", "diff."),
        Column("runs", "runs", left=True),
    )
    notes = ["spread: the standard deviation between seeds, with n - 1 in the divisor."]
    notes += notes_for(present)
    if not rows:
        notes = ["No recipe has evaluated runs with more than one seed."]
    return Table("seeds", "Mean and spread over seeds", columns, rows, notes)

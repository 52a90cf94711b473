"""Which run made which number: how far it went, how long it took, on what, from which commit."""

from __future__ import annotations

from collections.abc import Sequence

from bihm_repro.report.formats import Cell, Column, Table, estimate_cell
from bihm_repro.report.marks import marks_of, notes_for
from bihm_repro.runs.reader import Run

__all__ = ["runs_table"]

COLUMNS = (
    Column("run", "run", left=True), Column("set", "set", left=True),
    Column("model", "model", left=True), Column("seed", "seed"),
    Column("nll_p", "-log p", r"$-\log p(x)$", estimates=True), Column("samples", "K"),
    Column("epochs", "epochs"), Column("updates", "updates"), Column("minutes", "minutes"),
    Column("state", "training", left=True), Column("engine", "engine", left=True),
    Column("commit", "commit", left=True))


def runs_table(runs: Sequence[Run]) -> Table:
    """All run folders, evaluated or not."""
    notes = ["-log p: on the test split, as written in the run's evaluation.json. epochs, updates, "
             "minutes: of training so far. commit: of the code that trained it.", *notes_for(runs)]
    if not runs:
        notes = ["No run folder was found."]
    return Table("runs", "Runs", COLUMNS, [_row(run) for run in runs], notes)


def _state(run: Run) -> str:
    if run.finished:
        return "finished"
    if run.status.get("finished"):
        cut = run.status.get("cut_by_budget")
        return "cut by its time budget" if cut else "finished after this evaluation"
    phase, phases = run.status.get("phase"), run.status.get("phases")
    if phase is None or phases is None:
        return "not finished"
    return f"in phase {min(phase + 1, phases)} of {phases}"


def _row(run: Run) -> list[Cell]:
    status, evaluation = run.status, run.evaluation or {}
    estimate = run.estimate("log_p")
    seconds = status.get("seconds")
    engine = status.get("engine")
    if isinstance(engine, dict):
        engine = " ".join(str(engine[key]) for key in ("name", "version") if key in engine)
    commit = status.get("commit") or evaluation.get("commit")
    return [Cell(run.name), Cell(run.dataset), Cell(run.kind), Cell(run.seed),
            estimate_cell(None if estimate is None else estimate.negated(), marks=marks_of(run)),
            Cell(run.sample_counts[-1] if run.sample_counts else None),
            Cell(status.get("epochs")), Cell(status.get("updates")),
            Cell(None if seconds is None else float(seconds) / 60, decimals=1),
            Cell(_state(run)), Cell(engine), Cell(str(commit)[:10] if commit else None)]

"""BiHM on MNIST with fewer layers, and with one layer left out, trained alike (Section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence

from bihm_repro.report.footnotes import marks_of, notes_for
from bihm_repro.report.methods import MNIST, method_of, negative_log_likelihood, nll_value
from bihm_repro.report.tables.runs import active_units
from bihm_repro.report.tables.table import Cell, Column, Table, estimate_cell
from bihm_repro.runs.reader import Run

__all__ = ["depth_runs", "depth_table", "left_out"]


def left_out(layers: tuple[int, ...], complete: tuple[int, ...]) -> int | None:
    """Return which layer of ``complete`` (1 is the one at the data) is missing in ``layers``.

    Of neighbouring layers of one size it is the lowest; None where not just one is missing.

    >>> left_out((9, 7), (9, 8, 7)), left_out((9,), (9, 8, 7))
    (2, None)
    """
    for number in range(len(complete)):
        if layers == (*complete[:number], *complete[number + 1 :]):
            return number + 1
    return None


def depth_runs(runs: Sequence[Run]) -> tuple[Run | None, list[Run], list[Run]]:
    """Return the deepest of the runs with one schedule, shallower ones, those without one layer.

    The schedule is that with which the most different models were trained.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.dataset == MNIST and method_of(run) == "BiHM" and run.evaluation is not None:
            groups.setdefault(run.recipe_without("model", "layers"), []).append(run)
    group = max(groups.values(), key=lambda group: len({run.layers for run in group}), default=[])
    if len({run.layers for run in group}) < 2:
        return None, [], []
    deepest = max(group, key=lambda run: len(run.layers))
    ordered = sorted(group, key=lambda run: (len(run.layers), run.name))
    shallower = [run for run in ordered if len(run.layers) < len(deepest.layers) - 1]
    without = [run for run in ordered if left_out(run.layers, deepest.layers)]
    return (
        deepest,
        shallower,
        sorted(without, key=lambda run: left_out(run.layers, deepest.layers) or 0),
    )


def depth_table(runs: Sequence[Run]) -> Table:
    """Return -log p and active units by the number of layers, and without each of them."""
    deepest, shallower, without = depth_runs(runs)
    shown = [] if deepest is None else [deepest, *shallower[::-1], *without]
    rows = []
    for run in shown:
        assert deepest is not None
        missing = left_out(run.layers, deepest.layers)
        gap = None if run is deepest else nll_value(run) - nll_value(deepest)
        rows.append(
            [
                Cell(len(run.layers)),
                Cell(None if missing is None else f"{missing} ({deepest.layers[missing - 1]})"),
                estimate_cell(negative_log_likelihood(run, samples=1), marks=marks_of(run)),
                estimate_cell(negative_log_likelihood(run), marks=marks_of(run)),
                Cell(gap, signed=True),
                Cell(run.updates),
                Cell(", ".join(map(str, active_units(run))) or None),
                Cell(run.name),
            ]
        )
    columns = (
        Column("layers", "layers"),
        Column("left_out", "left out (units)"),
        Column("bound", "bound", estimates=True),
        Column("estimate", "estimate", estimates=True),
        Column("difference", "diff."),
        Column("updates", "updates"),
        Column("active_units", "active units", left=True),
        Column("run", "run", left=True),
    )
    notes = [
        "One schedule for all; they differ in their layers alone. diff.: from the model with all "
        "layers; positive is worse. ± is the standard error over test rows, which the runs share; "
        "one seed each, so a difference may also be the seed's.",
        *notes_for(shown),
    ]
    if not shown:
        notes = ["No evaluated MNIST runs that differ in their layers alone."]
    return Table("depth", "Binarized MNIST: depth, and one layer left out", columns, rows, notes)

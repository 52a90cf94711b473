"""The paper's Tables 1 and 2 from our own runs: eight binary data sets."""

from __future__ import annotations

from collections.abc import Sequence

from bihm_repro.report import paper
from bihm_repro.report.footnotes import comparable, marks_of, notes_for
from bihm_repro.report.methods import (
    evaluation_of,
    method_run,
    methods_in,
    negative_log_likelihood,
    nll_value,
)
from bihm_repro.report.paper import UciSet
from bihm_repro.report.tables.table import Cell, Column, Table, difference, estimate_cell
from bihm_repro.runs.reader import Estimate, Run

__all__ = ["details_table", "models_table", "rws_table", "summary_line", "uci_run", "uci_table"]

SET = Column("set", "set", left=True)
DIFFERENCE_NOTE = (
    "± is one standard error of the mean over the test rows; diff. is ours minus "
    "the paper's: negative is better."
)
MISSING_NOTE = "—: no evaluated run."
PAPER_ROWS = {"RWS - NADE": "RWS-NADE", "RWS - SBN": "RWS"}
"""Our name for a model of the paper's Table 1, where it is another."""


def uci_run(runs: Sequence[Run], entry: UciSet, method: str = "BiHM") -> Run | None:
    """Return the evaluated run that represents a data set; for rcv1 its surrogate if need be."""
    layers = {"BiHM": entry.bihm_layers, "RWS": entry.rws_layers}.get(method)
    found = (
        method_run(runs, name, method, layers) for name in (entry.name, f"{entry.name}_surrogate")
    )
    return next((run for run in found if run is not None), None)


def _ours(run: Run | None, estimate: Estimate | None, decimals: int = 2) -> Cell:
    return estimate_cell(estimate, decimals, marks_of(run))


def _compared(run: Run | None, estimate: Estimate | None, quoted: float) -> Cell:
    return difference(estimate if run is not None and comparable(run) else None, quoted)


def uci_table(runs: Sequence[Run]) -> Table:
    """Our BiHM on the eight sets beside the paper's, with the differences."""
    chosen = [(entry, uci_run(runs, entry)) for entry in paper.UCI]
    columns = (
        SET,
        Column("nll_p", "-log p", r"$-\log p(x)$", estimates=True),
        Column("paper_nll_p", "paper"),
        Column("difference_p", "diff."),
        Column("nll_p_star", "-log p*", r"$-\log p^*(x)$", estimates=True),
        Column("paper_nll_p_star", "paper"),
        Column("difference_p_star", "diff."),
        Column("minus_log_z2", "-2 log Z", r"$-2\log Z$", estimates=True),
        Column("paper_minus_log_z2", "paper"),
        Column("ess", "ESS %", r"ESS \%", estimates=True),
        Column("paper_ess", "paper"),
    )
    present = [run for _, run in chosen]
    missing = [MISSING_NOTE] if None in present else []
    return Table(
        "uci",
        "UCI: test negative log-likelihood, BiHM beside the paper",
        columns,
        [_uci_row(entry, run) for entry, run in chosen],
        [DIFFERENCE_NOTE, *notes_for(present), *missing, summary_line(runs)],
    )


def _uci_row(entry: UciSet, run: Run | None) -> list[Cell]:
    nll_p = negative_log_likelihood(run)
    nll_p_star = negative_log_likelihood(run, "log_p_star")
    log_z2 = None if run is None or run.log_z2 is None else run.log_z2.negated()
    ess = None if run is None else run.ess("p_star")
    decimals = 1 if ess is None or ess.standard_error is None or ess.standard_error >= 0.05 else 2
    return [
        Cell(entry.name),
        _ours(run, nll_p),
        Cell(entry.nll_p),
        _compared(run, nll_p, entry.nll_p),
        _ours(run, nll_p_star),
        Cell(entry.nll_p_star),
        _compared(run, nll_p_star, entry.nll_p_star),
        _ours(run, log_z2),
        Cell(entry.minus_log_z2),
        _ours(run, ess, decimals),
        Cell(entry.ess, decimals=1),
    ]


def summary_line(runs: Sequence[Run]) -> str:
    """Return one sentence: on how many comparable sets -log p is the paper's or better."""
    reached: list[str] = []
    behind: list[str] = []
    for entry in paper.UCI:
        run = uci_run(runs, entry)
        if run is not None and comparable(run):
            better = round(nll_value(run) - entry.nll_p, 2) <= 0
            (reached if better else behind).append(entry.name)
    total = len(reached) + len(behind)
    if not total:
        return "No set has an evaluated run yet."
    text = f"At the paper's -log p or better on {len(reached)} of {total} sets"
    text += f" ({', '.join(reached)})" if reached else ""
    return text + (f"; behind on {', '.join(behind)}." if behind else ".")


def details_table(runs: Sequence[Run]) -> Table:
    """Layer sizes, and how each number of the UCI tables was estimated."""
    methods = [*dict.fromkeys(["BiHM", "RWS", *methods_in(runs)])]
    chosen = [(entry, name, uci_run(runs, entry, name)) for name in methods for entry in paper.UCI]
    chosen = [row for row in chosen if row[2] is not None or row[1] in ("BiHM", "RWS")]
    columns = (
        SET,
        Column("model", "model", left=True),
        Column("paper_layers", "paper's layer sizes", left=True),
        Column("layers", "ours", left=True),
        Column("test_examples", "test rows"),
        Column("samples", "K"),
        Column("z_samples", "Z samples"),
        Column("ess_samples", "ESS K"),
        Column("run", "run", left=True),
    )
    return Table(
        "uci-details",
        "UCI: layer sizes, and how the numbers were estimated",
        columns,
        [_details_row(*row) for row in chosen],
        notes_for(run for _, _, run in chosen),
    )


def _details_row(entry: UciSet, method: str, run: Run | None) -> list[Cell]:
    layers = {"BiHM": entry.bihm_layers, "RWS": entry.rws_layers}.get(method)
    quoted = Cell(None if layers is None else ", ".join(map(str, layers)))
    row = [Cell(entry.name), Cell(method), quoted]
    if run is None:
        return [*row, *[Cell()] * 6]
    evaluation = evaluation_of(run)
    ours = "the same" if run.layers == layers else ", ".join(map(str, run.layers))
    return [
        *row,
        Cell(ours),
        Cell(evaluation.get("n_examples")),
        Cell(run.sample_counts[-1]),
        Cell((evaluation.get("log_z2") or {}).get("samples")),
        Cell((evaluation.get("ess") or {}).get("samples")),
        Cell(run.name, marks=marks_of(run)),
    ]


def rws_table(runs: Sequence[Run]) -> Table:
    """Our RWS beside the paper's "RWS - SBN" row, and beside our own BiHM."""
    rows, present = [], []
    for entry in paper.UCI:
        rws, bihm = uci_run(runs, entry, "RWS"), uci_run(runs, entry)
        present += [rws, bihm]
        quoted, nll = entry.quoted["RWS - SBN"], negative_log_likelihood(rws)
        rows.append(
            [
                Cell(entry.name),
                _ours(rws, nll),
                Cell(quoted),
                _compared(rws, nll, quoted),
                _ours(rws, rws.ess("p") if rws else None),
                _ours(bihm, negative_log_likelihood(bihm)),
                _ours(bihm, bihm.ess("p") if bihm else None),
                _ours(bihm, bihm.ess("p_star") if bihm else None),
            ]
        )
    columns = (
        SET,
        Column("rws_nll_p", "RWS -log p", r"RWS $-\log p(x)$", estimates=True),
        Column("paper_rws_sbn", "paper"),
        Column("difference", "diff."),
        Column("rws_ess_p", "ESS %", r"ESS \%", estimates=True),
        Column("bihm_nll_p", "BiHM -log p", r"BiHM $-\log p(x)$", estimates=True),
        Column("bihm_ess_p", "ESS % for p", r"ESS \% for $p$", estimates=True),
        Column("bihm_ess_p_star", "for p*", r"for $p^*$", estimates=True),
    )
    notes = [
        DIFFERENCE_NOTE,
        "paper: its row RWS - SBN. ESS: of q(h|x) as a proposal for p(h|x), and for p*(h|x), in "
        "percent of K.",
        *notes_for(present),
    ]
    title = "UCI: reweighted wake-sleep, ours beside the paper's and our BiHM"
    return Table("uci-rws", title, columns, rows, notes)


def models_table(runs: Sequence[Run]) -> Table:
    """Table 1 as the paper prints it, models down and sets across; ours below the paper's."""
    columns = [Column("model", "model", left=True)]
    columns += [Column(entry.name, entry.name) for entry in paper.UCI]
    rows, present = [], []

    def add_ours(method: str, quantity: str = "log_p", label: str = "") -> None:
        chosen = [uci_run(runs, entry, method) for entry in paper.UCI]
        if any(run is not None for run in chosen):
            present.extend(chosen)
            values = [negative_log_likelihood(run, quantity) for run in chosen]
            cells = [
                Cell(nll and nll.value, marks=marks_of(run) if nll else "")
                for run, nll in zip(chosen, values)
            ]
            rows.append([Cell(f"{method}{label}, ours"), *cells])

    for model in paper.UCI_QUOTED_MODELS:
        rows.append([Cell(model), *[Cell(entry.quoted[model]) for entry in paper.UCI]])
        add_ours(PAPER_ROWS.get(model, model))
    for quantity, label in (("log_p", " -log p"), ("log_p_star", " -log p*")):
        quoted = [entry.nll_p if quantity == "log_p" else entry.nll_p_star for entry in paper.UCI]
        rows.append([Cell(f"BiHM{label}"), *map(Cell, quoted)])
        add_ours("BiHM", quantity, label)
    listed = {"BiHM", *(PAPER_ROWS.get(name, name) for name in paper.UCI_QUOTED_MODELS)}
    for method in methods_in(runs):
        if method not in listed:
            add_ours(method)
    notes = ["Rows without “ours” are the paper's.", *notes_for(present)]
    title = "UCI: test negative log-likelihood beside every model of the paper's Table 1"
    return Table("uci-models", title, columns, rows, notes)

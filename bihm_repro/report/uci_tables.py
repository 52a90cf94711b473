"""The paper's Table 1 and Table 2 from our own runs: eight binary sets, BiHM and RWS."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bihm_repro.report import paper
from bihm_repro.report.formats import Cell, Column, Table, difference, estimate_cell
from bihm_repro.report.marks import comparable, marks_of, notes_for
from bihm_repro.report.paper import UciSet
from bihm_repro.runs.reader import Estimate, Run, main_run, seed_groups

__all__ = ["details_table", "models_table", "rws_table", "seeds_table", "summary_line",
           "uci_run", "uci_table"]

NLL_P = Column("nll_p", "-log p", r"$-\log p(x)$", estimates=True)
NLL_P_STAR = Column("nll_p_star", "-log p*", r"$-\log p^*(x)$", estimates=True)
MINUS_LOG_Z2 = Column("minus_log_z2", "-2 log Z", r"$-2\log Z$", estimates=True)
SET = Column("set", "set", left=True)
DIFFERENCE_NOTE = ("± is one standard error of the mean over the test rows; diff. is ours minus "
                   "the paper's: negative is better.")
MISSING_NOTE = "—: no evaluated run."


def uci_run(runs: Sequence[Run], entry: UciSet, kind: str = "bihm") -> Run | None:
    """The evaluated run that speaks for a set; for rcv1 its surrogate where there is no other."""
    layers = entry.bihm_layers if kind == "bihm" else entry.rws_layers
    for dataset in (entry.name, f"{entry.name}_surrogate"):
        run = main_run(runs, dataset, kind, layers)
        if run is not None and run.evaluation is not None:
            return run
    return None


def _nll(run: Run | None, quantity: str = "log_p") -> Estimate | None:
    estimate = None if run is None else run.estimate(quantity)
    return None if estimate is None else estimate.negated()


def _ours(run: Run | None, estimate: Estimate | None, decimals: int = 2) -> Cell:
    return estimate_cell(estimate, decimals, "" if run is None else marks_of(run))


def _compared(run: Run | None, estimate: Estimate | None, quoted: float) -> Cell:
    return difference(estimate if run is not None and comparable(run) else None, quoted)


def uci_table(runs: Sequence[Run]) -> Table:
    """Our test figures for the eight sets beside the paper's, with the difference."""
    chosen = [(entry, uci_run(runs, entry)) for entry in paper.UCI]
    rows = [_uci_row(entry, run) for entry, run in chosen]
    columns = (
        SET, NLL_P, Column("paper_nll_p", "paper"), Column("difference_p", "diff."),
        NLL_P_STAR, Column("paper_nll_p_star", "paper"), Column("difference_p_star", "diff."),
        MINUS_LOG_Z2, Column("paper_minus_log_z2", "paper"),
        Column("ess", "ESS %", r"ESS \%", estimates=True), Column("paper_ess", "paper"))
    present = [run for _, run in chosen]
    notes = [DIFFERENCE_NOTE, *notes_for(present)]
    if None in present:
        notes.append(MISSING_NOTE)
    return Table("uci", "UCI: test negative log-likelihood, BiHM beside the paper", columns, rows,
                 [*notes, summary_line(runs)])


def _uci_row(entry: UciSet, run: Run | None) -> list[Cell]:
    nll_p, nll_p_star = _nll(run), _nll(run, "log_p_star")
    log_z2 = None if run is None or run.log_z2 is None else run.log_z2.negated()
    ess = None if run is None else run.ess("p_star")
    return [Cell(entry.name),
            _ours(run, nll_p), Cell(entry.nll_p), _compared(run, nll_p, entry.nll_p),
            _ours(run, nll_p_star), Cell(entry.nll_p_star),
            _compared(run, nll_p_star, entry.nll_p_star),
            _ours(run, log_z2), Cell(entry.minus_log_z2),
            _ours(run, ess, _ess_decimals(ess)), Cell(entry.ess, decimals=1)]


def _ess_decimals(ess: Estimate | None) -> int:
    return 1 if ess is None or ess.standard_error is None or ess.standard_error >= 0.05 else 2


def summary_line(runs: Sequence[Run]) -> str:
    """One sentence: on how many of the comparable sets -log p is the paper's or better."""
    reached, behind = [], []
    for entry in paper.UCI:
        run = uci_run(runs, entry)
        if run is not None and comparable(run):
            better = round(_nll(run).value - entry.nll_p, 2) <= 0
            (reached if better else behind).append(entry.name)
    total = len(reached) + len(behind)
    if not total:
        return "No set has an evaluated run yet."
    text = f"At the paper's -log p or better on {len(reached)} of {total} sets"
    text += f" ({', '.join(reached)})" if reached else ""
    return text + (f"; behind on {', '.join(behind)}." if behind else ".")


def _layers(layers: Sequence[int]) -> str:
    return ", ".join(str(size) for size in layers)


def details_table(runs: Sequence[Run]) -> Table:
    """Layer sizes, and how each number of the UCI tables was estimated."""
    chosen = [(entry, kind, uci_run(runs, entry, kind))
              for kind in ("bihm", "rws") for entry in paper.UCI]
    rows = [_details_row(entry, kind, run) for entry, kind, run in chosen]
    columns = (SET, Column("model", "model", left=True),
               Column("paper_layers", "paper's layer sizes", left=True),
               Column("layers", "ours", left=True), Column("test_examples", "test rows"),
               Column("samples", "K"), Column("z_samples", "Z samples"),
               Column("ess_samples", "ESS K"), Column("run", "run", left=True))
    return Table("uci-details", "UCI: layer sizes, and how the figures were estimated", columns,
                 rows, notes_for(run for _, _, run in chosen))


def _details_row(entry: UciSet, kind: str, run: Run | None) -> list[Cell]:
    layers = entry.bihm_layers if kind == "bihm" else entry.rws_layers
    row = [Cell(entry.name), Cell({"bihm": "BiHM", "rws": "RWS"}[kind]), Cell(_layers(layers))]
    if run is None:
        return [*row, *[Cell()] * 6]
    evaluation = run.evaluation
    ours = "the same" if run.layers == layers else _layers(run.layers)
    return [*row, Cell(ours), Cell(evaluation.get("n_examples")), Cell(run.sample_counts[-1]),
            Cell((evaluation.get("log_z2") or {}).get("samples")),
            Cell((evaluation.get("ess") or {}).get("samples")), Cell(run.name, marks=marks_of(run))]


def rws_table(runs: Sequence[Run]) -> Table:
    """Our RWS beside the paper's "RWS - SBN" row, and beside our own BiHM."""
    rows, present = [], []
    for entry in paper.UCI:
        rws, bihm = uci_run(runs, entry, "rws"), uci_run(runs, entry)
        present += [rws, bihm]
        quoted = entry.quoted["RWS - SBN"]
        rows.append([
            Cell(entry.name), _ours(rws, _nll(rws)), Cell(quoted),
            _compared(rws, _nll(rws), quoted),
            _ours(rws, rws and rws.ess("p"), 2), _ours(bihm, _nll(bihm)),
            _ours(bihm, bihm and bihm.ess("p"), 2), _ours(bihm, bihm and bihm.ess("p_star"), 2)])
    columns = (SET, Column("rws_nll_p", "RWS -log p", r"RWS $-\log p(x)$", estimates=True),
               Column("paper_rws_sbn", "paper"), Column("difference", "diff."),
               Column("rws_ess_p", "ESS %", r"ESS \%", estimates=True),
               Column("bihm_nll_p", "BiHM -log p", r"BiHM $-\log p(x)$", estimates=True),
               Column("bihm_ess_p", "ESS % for p", r"ESS \% for $p$", estimates=True),
               Column("bihm_ess_p_star", "for p*", r"for $p^*$", estimates=True))
    notes = [DIFFERENCE_NOTE, "paper: its row RWS - SBN. ESS: of q(h|x) as a proposal for p(h|x), "
             "and for p*(h|x), in percent of K.", *notes_for(present)]
    return Table("uci-rws", "UCI: reweighted wake-sleep, ours beside the paper's and our BiHM",
                 columns, rows, notes)


def models_table(runs: Sequence[Run]) -> Table:
    """Table 1 as the paper prints it, models down and sets across, with our rows below."""
    columns = [Column("model", "model", left=True)]
    columns += [Column(entry.name, entry.name) for entry in paper.UCI]
    rows = [[Cell(model), *[Cell(entry.quoted[model]) for entry in paper.UCI]]
            for model in paper.UCI_QUOTED_MODELS]
    rows.append([Cell("BiHM -log p, paper"), *[Cell(entry.nll_p) for entry in paper.UCI]])
    rows.append([Cell("BiHM -log p*, paper"), *[Cell(entry.nll_p_star) for entry in paper.UCI]])
    present = []
    for label, kind, quantity in (("RWS, ours", "rws", "log_p"),
                                  ("BiHM -log p, ours", "bihm", "log_p"),
                                  ("BiHM -log p*, ours", "bihm", "log_p_star")):
        chosen = [uci_run(runs, entry, kind) for entry in paper.UCI]
        present += chosen
        cells = [_ours(run, _nll(run, quantity)) for run in chosen]
        rows.append([Cell(label), *[Cell(cell.value, marks=cell.marks) for cell in cells]])
    return Table("uci-models", "UCI: test negative log-likelihood beside every model of the "
                 "paper's Table 1", columns, rows, notes_for(present))


def seeds_table(runs: Sequence[Run]) -> Table:
    """Mean and spread over seeds of each recipe that was run with more than one."""
    rows, present = [], []
    quoted = {entry.name: entry for entry in paper.UCI}
    for group in seed_groups(run for run in runs if run.evaluation is not None):
        if len({run.seed for run in group}) < 2:
            continue
        group = list({run.seed: run for run in reversed(group)}.values())[::-1]  # one run a seed
        present += group
        values = [-run.estimate("log_p").value for run in group]
        entry = quoted.get(group[0].dataset)
        published = None if entry is None else (
            entry.nll_p if group[0].kind == "bihm" else entry.quoted["RWS - SBN"])
        mean = statistics.fmean(values)
        marks = "".join(dict.fromkeys("".join(marks_of(run) for run in group)))
        rows.append([
            Cell(group[0].dataset), Cell(group[0].kind), Cell(len(group)),
            Cell(mean, marks=marks), Cell(statistics.stdev(values)), Cell(min(values)),
            Cell(max(values)), Cell(published), difference(Estimate(mean), published),
            Cell(", ".join(run.name for run in group))])
    columns = (SET, Column("model", "model", left=True), Column("seeds", "seeds"),
               Column("mean_nll_p", "mean -log p", r"mean $-\log p(x)$"),
               Column("spread", "spread"), Column("lowest", "lowest"),
               Column("highest", "highest"), Column("paper", "paper"),
               Column("difference", "diff."), Column("runs", "runs", left=True))
    notes = ["spread: the standard deviation between seeds (n - 1 in the divisor).",
             *notes_for(present)]
    if not rows:
        notes = ["No recipe has evaluated runs with more than one seed."]
    return Table("seeds", "Mean and spread over seeds", columns, rows, notes)

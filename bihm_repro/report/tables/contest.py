"""BiHM and RWS with one schedule, on the paper's deep and shallow layers: ``results/contest``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from bihm_repro.recipes.recipe import Phase
from bihm_repro.report import paper
from bihm_repro.report.footnotes import notes_for
from bihm_repro.report.methods import method_of, negative_log_likelihood, nll_value
from bihm_repro.report.tables.table import Cell, Column, Table
from bihm_repro.runs.reader import Run, seed_groups

__all__ = [
    "Entry",
    "compare",
    "contest_entries",
    "contest_summary",
    "contest_table",
    "without_contest",
]

GROUP = "contest/"
"""What the names of the contest's runs begin with."""
METHODS = ("BiHM", "RWS")


class Entry(NamedTuple):
    """One method on one architecture: the runs of the chosen penalty and rate, one per seed."""

    runs: list[Run]
    trials: int
    """How many pairs of a penalty and a rate were tried."""

    @property
    def l1(self) -> float:
        """The penalty that validation chose."""
        return float(self.runs[0].recipe.get("training", {}).get("l1", 0.0))

    @property
    def rate(self) -> float:
        """The learning rate of the first phase, which validation chose."""
        phases = self.runs[0].recipe.get("phases") or [{}]
        return float(phases[0].get("learning_rate", Phase().learning_rate))

    @property
    def valid(self) -> float:
        """Validation log p of the lowest seed, by which choices are made."""
        return float(self.runs[0].status.get("best_valid", -math.inf))

    @property
    def mean(self) -> float:
        """Mean test -log p over the seeds."""
        return statistics.fmean(map(nll_value, self.runs))

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds; None for a single one."""
        return statistics.stdev(map(nll_value, self.runs)) if len(self.runs) > 1 else None

    @property
    def error(self) -> float:
        """Standard error of the mean over seeds; of a single seed, that over the test rows."""
        if self.spread is not None:
            return self.spread / math.sqrt(len(self.runs))
        estimate = negative_log_likelihood(self.runs[0])
        return (estimate.standard_error if estimate else None) or 0.0

    @property
    def cell(self) -> Cell:
        """Mean and spread as one cell."""
        return Cell(self.mean, self.spread)


def without_contest(runs: Sequence[Run]) -> list[Run]:
    """Return the runs that the other tables are about."""
    return [run for run in runs if not run.name.startswith(GROUP)]


def contest_entries(runs: Sequence[Run]) -> dict[tuple[str, str, str], Entry]:
    """Return the entry of each (set, architecture, method) that has an evaluated run.

    Of the penalties and rates that were tried, those whose lowest seed has the best validation
    log p.
    """
    found: dict[tuple[str, str, str], list[list[Run]]] = {}
    for group in seed_groups(run for run in runs if run.name.startswith(GROUP)):
        first = group[0]
        architecture = _architecture(first)
        if architecture and method_of(first) in METHODS:
            found.setdefault((first.dataset, architecture, method_of(first)), []).append(group)
    entries = {}
    for key, groups in found.items():
        chosen = max(groups, key=lambda group: float(group[0].status.get("best_valid", -math.inf)))
        evaluated = [run for run in chosen if run.evaluation is not None]
        if evaluated:
            entries[key] = Entry(evaluated, len(groups))
    return entries


def _architecture(run: Run) -> str | None:
    entry = paper.UCI_BY_NAME.get(run.dataset)
    if entry is None:
        return None
    return {entry.bihm_layers: "deep", entry.rws_layers: "shallow"}.get(run.layers)


def compare(first: Entry, second: Entry) -> float:
    """-1, 0 or 1: which mean is lower; 0 within two standard errors of the difference."""
    gap = first.mean - second.mean
    return math.copysign(abs(gap) > 2 * math.hypot(first.error, second.error), gap)


def _compared(entries: dict[tuple[str, str, str], Entry], question: str, pairs: list) -> str:
    """One sentence: on which sets the first of each pair is better, worse, or equal."""
    names: dict[float, list[str]] = {-1.0: [], 0.0: [], 1.0: []}
    for name, first, second in pairs:
        if first in entries and second in entries:
            names[compare(entries[first], entries[second]) + 0.0].append(name)
    parts = [
        f"{word} on {', '.join(names[sign])}"
        for sign, word in ((-1.0, "better"), (1.0, "worse"), (0.0, "no difference"))
        if names[sign]
    ]
    return f"{question}: {'; '.join(parts)}." if parts else ""


def contest_summary(runs: Sequence[Run]) -> list[str]:
    """Return the contest's conclusions, one sentence per question."""
    entries = contest_entries(runs)
    sets = list(dict.fromkeys(name for name, _, _ in entries))
    sentences = [
        _compared(entries, f"BiHM against RWS, {kind} layers",
                  [(s, (s, kind, "BiHM"), (s, kind, "RWS")) for s in sets])
        for kind in ("deep", "shallow")
    ] + [
        _compared(entries, f"{method}, deep against shallow layers",
                  [(s, (s, "deep", method), (s, "shallow", method)) for s in sets])
        for method in METHODS
    ]  # fmt: skip
    return [sentence for sentence in sentences if sentence]


def contest_table(runs: Sequence[Run]) -> Table:
    """Return mean and spread of test -log p for each set, architecture and method."""
    entries = contest_entries(runs)
    rows, present = [], []
    for name, kind in dict.fromkeys((name, kind) for name, kind, _ in sorted(entries)):
        both = [entries.get((name, kind, method)) for method in METHODS]
        present += [run for entry in both if entry for run in entry.runs]
        cells = [
            cell
            for entry in both
            for cell in (
                (entry.cell, Cell(f"{entry.l1:g}"), Cell(f"{entry.rate:g}"), Cell(len(entry.runs)))
                if entry
                else (Cell(),) * 4
            )
        ]
        bihm, rws = both
        gap = Cell(bihm.mean - rws.mean, signed=True) if bihm and rws else Cell()
        layers = next(entry for entry in both if entry).runs[0].layers
        rows.append([Cell(name), Cell(kind), Cell(", ".join(map(str, layers))), *cells, gap])
    columns = (
        Column("set", "set", left=True),
        Column("architecture", "layers", left=True),
        Column("sizes", "sizes", left=True),
        *(
            column
            for method in METHODS
            for column in (
                Column(f"{method.lower()}_nll_p", f"{method} -log p",
                       rf"{method} $-\log p(x)$", estimates=True),
                Column(f"{method.lower()}_l1", "L1"),
                Column(f"{method.lower()}_rate", "rate"),
                Column(f"{method.lower()}_seeds", "seeds"),
            )
        ),
        Column("difference", "diff."),
    )  # fmt: skip
    trials = sorted({entry.trials for entry in entries.values()})
    notes = [
        "Same initial weights, centring, averaging and number of epochs for all. L1 and rate: "
        "chosen on validation, for each method and architecture, from the same "
        f"{' or '.join(map(str, trials))} trials. ±: standard deviation between seeds. deep: the "
        "paper's layers for BiHM; shallow: its layers for RWS. diff.: BiHM minus RWS. Below, "
        "differences within two standard errors (between seeds; of a single seed, over the test "
        "rows) count as none.",
        *contest_summary(runs),
        *notes_for(present),
    ]
    if not entries:
        notes = ["No run of the contest has been evaluated."]
    title = "BiHM and RWS with one schedule, on deep and on shallow layers"
    return Table("contest", title, columns, rows, notes)

"""BiHM with and without a sleep term in q's gradient, all else equal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from bihm_repro.report.footnotes import notes_for
from bihm_repro.report.methods import method_of, nll_value
from bihm_repro.report.tables.table import Cell, Column, Table
from bihm_repro.runs.reader import Run, seed_groups

__all__ = ["sleep_pairs", "sleep_summary", "sleep_table"]

Pair = tuple[list[Run], list[Run]]


def _minus_log_z2(run: Run) -> float:
    return math.nan if run.log_z2 is None else -run.log_z2.value


def _ess(run: Run, target: str) -> float:
    estimate = run.ess(target)
    return math.nan if estimate is None else estimate.value


QUANTITIES: tuple[tuple[str, str, str, Callable[[Run], float]], ...] = (
    ("nll_p", "-log p", r"$-\log p(x)$", nll_value),
    ("nll_p_star", "-log p*", r"$-\log p^*(x)$", lambda run: nll_value(run, "log_p_star")),
    ("minus_log_z2", "-2 log Z", r"$-2\log Z$", _minus_log_z2),
    ("ess_p_star", "ESS p* %", r"ESS $p^*$ \%", lambda run: _ess(run, "p_star")),
    ("ess_p", "ESS p %", r"ESS $p$ \%", lambda run: _ess(run, "p")),
)
"""Key, heading, LaTeX heading and value of what is compared."""


def sleep_pairs(runs: Sequence[Run]) -> list[Pair]:
    """Return evaluated runs without and with a sleep term, of the seeds that both have."""
    evaluated = [run for run in runs if run.evaluation is not None]
    groups = seed_groups(run for run in evaluated if run.kind == "bihm")
    plain = {
        g[0].recipe_without("training", "sleep"): g
        for g in groups
        if not method_of(g[0]).endswith("sleep")
    }
    pairs = []
    for group in groups:
        other = plain.get(group[0].recipe_without("training", "sleep"))
        if other is None or not method_of(group[0]).endswith("sleep"):
            continue
        without = {run.seed: run for run in other}
        both = [(without[run.seed], run) for run in group if run.seed in without]
        if both:
            pairs.append(([first for first, _ in both], [second for _, second in both]))
    return sorted(pairs, key=lambda pair: pair[0][0].dataset)


def _differences(pair: Pair, value: Callable[[Run], float]) -> list[float]:
    """What the sleep term changed, seed by seed."""
    return [value(second) - value(first) for first, second in zip(*pair)]


def _sign(differences: list[float]) -> int:
    """-1, 0 or 1: the direction in which every seed agrees; 0 where they do not."""
    signs = {math.copysign(1, gap) if gap else 0 for gap in differences}
    return int(signs.pop()) if len(signs) == 1 else 0


def sleep_summary(pairs: Sequence[Pair]) -> list[str]:
    """Return one sentence per quantity: on which sets all seeds agree on a rise or a fall."""
    sentences = []
    for _, heading, _, value in QUANTITIES:
        names: dict[int, list[str]] = {-1: [], 1: [], 0: []}
        for pair in pairs:
            names[_sign(_differences(pair, value))].append(pair[0][0].dataset)
        parts = [
            f"{word} on {', '.join(names[sign])}"
            for sign, word in ((-1, "lower"), (1, "higher"), (0, "seeds disagree"))
            if names[sign]
        ]
        sentences.append(f"{heading} with the sleep term: {'; '.join(parts)}.")
    return sentences


def sleep_table(runs: Sequence[Run]) -> Table:
    """Return means over seeds without and with a sleep term, and their difference."""
    pairs = sleep_pairs(runs)
    rows = []
    for pair in pairs:
        cells = []
        for _, _, _, value in QUANTITIES:
            cells += [Cell(statistics.fmean(map(value, runs_of))) for runs_of in pair]
            cells.append(Cell(statistics.fmean(_differences(pair, value)), signed=True))
        rows.append([Cell(pair[0][0].dataset), Cell(len(pair[0])), *cells])
    columns = (
        Column("set", "set", left=True),
        Column("seeds", "seeds"),
        *(
            column
            for key, heading, latex, _ in QUANTITIES
            for column in (
                Column(key, heading, latex),
                Column(f"{key}_sleep", "sleep"),
                Column(f"{key}_difference", "diff."),
            )
        ),
    )
    notes = [
        "Test means over the seeds that both have, trained alike but for training.sleep = 1. "
        "Below, a set counts as higher or lower where all its seeds agree.",
        *(sleep_summary(pairs) if pairs else ()),
        *notes_for([run for pair in pairs for part in pair for run in part]),
    ]
    if not pairs:
        notes = ["No run with a sleep term has a counterpart without one."]
    return Table("sleep", "BiHM without and with a sleep term", columns, rows, notes)

"""A dot plot of the UCI results: our numbers beside the paper's, on scales that fit all sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from bihm_repro.report import paper
from bihm_repro.report.figures.style import PAPER_LINE, Plot, new_figure, panel_title
from bihm_repro.report.footnotes import comparable, marks_of
from bihm_repro.report.methods import negative_log_likelihood, nll_value
from bihm_repro.report.tables.uci import uci_run
from bihm_repro.runs.reader import Run

__all__ = ["plot_uci", "uci_numbers"]

OURS = {"color": "#0b3c6f", "marker": "o", "markersize": 4.5, "linestyle": "none"}
OURS_RWS = {"color": "#2f8f5b", "marker": "^", "markersize": 4.5, "linestyle": "none"}
QUOTED = {"color": "0.2", "marker": "x", "markersize": 4, "linestyle": "none", "zorder": 5}
QUOTED_RWS = {
    "color": "0.45",
    "marker": "^",
    "markersize": 4.5,
    "linestyle": "none",
    "markerfacecolor": "none",
}


def uci_numbers(runs: Sequence[Run]) -> tuple[pd.DataFrame, list[str]]:
    """Return our and the paper's numbers for each set that has an evaluated, comparable run."""
    rows, absent, missing = [], [], []
    for entry in paper.UCI:
        run, rws = uci_run(runs, entry), uci_run(runs, entry, "RWS")
        if run is None:
            absent.append(entry.name)
            continue
        if not comparable(run):
            missing.append(f"{entry.name}: {run.dataset} is not comparable with the paper's set")
            continue
        nll, ess = negative_log_likelihood(run), run.ess("p_star")
        ours_rws = None if rws is None or not comparable(rws) else nll_value(rws)
        rows.append(
            {
                "set": entry.name,
                "nll_p": nll and nll.value,
                "nll_p_se": nll and nll.standard_error,
                "paper_nll_p": entry.nll_p,
                "rws_nll_p": ours_rws,
                "paper_rws_sbn": entry.quoted["RWS - SBN"],
                "minus_log_z2": None if run.log_z2 is None else -run.log_z2.value,
                "paper_minus_log_z2": entry.minus_log_z2,
                "ess": None if ess is None else ess.value,
                "paper_ess": entry.ess,
                "marks": marks_of(run),
            }
        )
    if absent:
        missing.append(f"no evaluated run on {', '.join(absent)}")
    return pd.DataFrame(rows), missing


def plot_uci(runs: Sequence[Run], data: str = "data", folder: Path | None = None) -> Plot:
    """A -log p as a difference to the paper's BiHM, B -2 log Z, C effective sample size."""
    numbers, missing = uci_numbers(runs)
    if numbers.empty:
        return Plot(None, missing=missing)
    figure = new_figure(0.9 + 0.21 * len(numbers))
    panels = figure.subplots(1, 3, sharey=True, width_ratios=(1.7, 1, 1))
    heights = range(len(numbers))
    _plot_differences(panels[0], numbers, heights)
    for axes, column, letter, title, text in (
        (panels[1], "minus_log_z2", "B", "normalization", "$-2\\,\\log\\,Z$ (nats)"),
        (panels[2], "ess", "C", "ESS for $p^{*}$", "effective sample size (%)"),
    ):
        axes.plot(numbers[f"paper_{column}"], heights, **QUOTED)
        axes.plot(pd.to_numeric(numbers[column]), heights, **OURS)
        axes.set_xlim(left=0)
        axes.set_xlabel(text)
        panel_title(axes, letter, title)
    panels[2].set_xlim(0, 100)
    panels[0].set_yticks(list(heights), numbers["set"] + numbers["marks"])
    panels[0].invert_yaxis()
    for axes in panels:
        axes.tick_params(axis="y", length=0)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, handletextpad=0.2)
    return Plot(figure, {"": numbers}, missing)


def _plot_differences(axes: Axes, numbers: pd.DataFrame, heights: Sequence[int]) -> None:
    base = numbers["paper_nll_p"]
    axes.axvline(0, **PAPER_LINE)
    axes.plot(base - base, heights, label="BiHM, paper", **QUOTED)
    axes.plot(numbers["paper_rws_sbn"] - base, heights, label="RWS - SBN, paper", **QUOTED_RWS)
    axes.errorbar(
        numbers["nll_p"] - base,
        list(heights),
        xerr=numbers["nll_p_se"],
        capsize=1.5,
        elinewidth=0.8,
        label="BiHM, ours",
        **OURS,
    )
    if numbers["rws_nll_p"].notna().any():
        axes.plot(
            pd.to_numeric(numbers["rws_nll_p"]) - base, heights, label="RWS, ours", **OURS_RWS
        )
    axes.set_xlabel("test $-\\log\\,p(x)$ minus the paper's BiHM (nats)")
    panel_title(axes, "A", "negative log-likelihood")

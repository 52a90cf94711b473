"""The paper's Figures 3 and 4 and a dot plot of its Table 1, from logs, traces and evaluations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bihm_repro.report import paper
from bihm_repro.report.figures.style import (
    COLUMN_WIDTH,
    PAPER_LINE,
    SERIES,
    Drawing,
    Places,
    new_figure,
    panel_title,
)
from bihm_repro.report.mnist_tables import PAPER_LAYERS
from bihm_repro.runs.reader import Run, main_run

__all__ = ["draw_learning_curves", "draw_partition_function", "draw_run", "learning_curves",
           "measured_counts", "measured_curve", "z_spread"]

MNIST = "binarized_mnist"
INNER_STYLES = {1: ("#0b3c6f", "-", "o"), 10: ("#d1660a", "--", "s"), 100: ("#2f8f5b", "-.", "^")}
SERIES_OF_KIND = {"bihm": "bihm p", "rws": "rws", "vae": "vae", "iwae": "iwae"}


def _with_log(runs: Sequence[Run], kind: str) -> Run | None:
    logged = [run for run in runs if not run.log.empty]
    return main_run(logged, MNIST, kind, PAPER_LAYERS.get(kind))


def measured_counts(log: pd.DataFrame) -> list[int]:
    """The K at which the log has measured the test log p, ascending."""
    counts = [int(name.rsplit("_", 1)[1]) for name in log.columns
              if name.startswith("test_log_p_") and name.rsplit("_", 1)[1].isdigit()
              and "tilde" not in name and log[name].notna().any()]
    return sorted(counts)


def measured_curve(log: pd.DataFrame, samples: int) -> pd.DataFrame:
    """Rows where the test was measured: updates, seconds, log_p, log_p_star and log_z2 in nats."""
    kept = log[log[f"test_log_p_{samples}"].notna()]
    curve = kept[["updates", "seconds"]].copy()
    curve["log_p"] = kept[f"test_log_p_{samples}"]
    tilde = f"test_log_p_tilde_star_{samples}"
    empty = pd.Series(np.nan, index=kept.index)
    curve["log_z2"] = kept["log_z2"] if "log_z2" in kept else empty
    curve["log_p_star"] = (kept[tilde] if tilde in kept else empty) - curve["log_z2"]
    return curve.reset_index(drop=True)


def _thousands(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(FuncFormatter(
        lambda value, _: f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"))


def _view_of(values: Sequence[float], span: float = 30.0) -> tuple[float, float]:
    """Limits of the likelihood axis: the best with some air, and not more than ``span`` below."""
    finite = np.asarray([value for value in values if np.isfinite(value)])
    best, worst = finite.max(), finite.min()
    return max(worst, best - span) - 0.5, best + 0.06 * min(span, best - worst) + 0.5


# -- Figure 3 ------------------------------------------------------------------------------------


def draw_partition_function(runs: Sequence[Run], places: Places | None = None) -> Drawing:
    """Figure 3: 2 log Z over A outer and B all samples; C its course during training."""
    traced = main_run([run for run in runs if not run.z_trace.empty], MNIST, "bihm",
                      PAPER_LAYERS["bihm"])
    trained = _with_log([run for run in runs if _has_z(run)], "bihm")
    left_out = []
    if traced is None:
        left_out.append("A and B: no z_trace.csv of a BiHM run on binarized_mnist (`bihm evaluate "
                        "RUN --z-trace` writes it)")
    if trained is None:
        left_out.append("C: no log of a BiHM run on binarized_mnist with 2 log Z measured")
    if traced is None and trained is None:
        return Drawing(None, left_out=left_out)
    drawing = Drawing(new_figure(2.3), left_out=left_out)
    parts = drawing.figure.subfigures(1, 3 if traced is not None and trained is not None
                                      else 2 if traced is not None else 1, squeeze=False)[0]
    if traced is not None:
        spread = z_spread(traced.z_trace)
        drawing.numbers[""] = spread
        _draw_z(parts[0].subplots(), spread, "k_outer", "A", "outer samples $K_{outer}$")
        _draw_z(parts[1].subplots(), spread, "total", "B", "all samples $K_{outer}\\,K_{inner}$")
    if trained is not None:
        curve = measured_curve(trained.log, measured_counts(trained.log)[-1])
        drawing.numbers["-training"] = curve
        _draw_training(parts[-1], curve)
    return drawing


def _has_z(run: Run) -> bool:
    return (not run.log.empty and "log_z2" in run.log and run.log["log_z2"].notna().any()
            and bool(measured_counts(run.log)))


def z_spread(trace: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over runs of the estimate at each K_inner and K_outer."""
    groups = trace.groupby(["k_inner", "k_outer"])["log_z2"]
    spread = groups.agg(mean="mean", deviation="std", runs="count").reset_index()
    spread["deviation"] = spread["deviation"].fillna(0.0)
    spread.insert(2, "total", spread["k_inner"] * spread["k_outer"])
    return spread


def _draw_z(axes: Axes, spread: pd.DataFrame, over: str, letter: str, label: str) -> None:
    for inner, part in spread.groupby("k_inner"):
        colour, dashes, marker = INNER_STYLES.get(inner, ("0.3", ":", "x"))
        axes.fill_between(part[over], part["mean"] - part["deviation"],
                          part["mean"] + part["deviation"], color=colour, alpha=0.15, linewidth=0)
        axes.plot(part[over], part["mean"], color=colour, linestyle=dashes, marker=marker,
                  markersize=2.5, label=f"$K_{{inner}}$ = {inner}{_of_runs(part)}")
    axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("estimate of $2\\,\\log\\,Z$")
    panel_title(axes, letter, {"A": "over outer samples", "B": "over all samples"}[letter])
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.45 * (high - low), high)      # room for the legend below the curves
    axes.legend(loc="lower right", handlelength=2.6)


def _of_runs(part: pd.DataFrame) -> str:
    runs = int(part["runs"].max())
    return f", {runs} runs" if runs > 1 else ""


def _draw_training(part: Figure, curve: pd.DataFrame) -> None:
    upper, lower = part.subplots(2, 1, sharex=True, height_ratios=(1.7, 1))
    every = max(1, len(curve) // 12)
    for column, name in (("log_p", "bihm p"), ("log_p_star", "bihm p*")):
        upper.plot(curve["updates"], curve[column],
                   **SERIES[name].line(label=SERIES[name].label, markersize=2.5, markevery=every))
    upper.set_ylim(*_view_of([*curve["log_p"], *curve["log_p_star"]]))
    upper.set_ylabel("test LL (nats)")
    upper.legend(loc="best", handlelength=2.6)
    lower.plot(curve["updates"], curve["log_z2"], **SERIES["log z2"].line(markersize=2.5,
                                                                                markevery=every))
    lower.set_ylabel(SERIES["log z2"].label)
    lower.set_xlabel("updates")
    _thousands(lower)
    panel_title(upper, "C", "during training")


# -- Figure 4 ------------------------------------------------------------------------------------


def learning_curves(runs: Sequence[Run]) -> tuple[pd.DataFrame, list[str]]:
    """Test log p of each kind at the largest K that all have: kind, run, updates, minutes..."""
    chosen, left_out = {}, []
    for kind in SERIES_OF_KIND:
        run = _with_log(runs, kind)
        if run is None or not measured_counts(run.log):
            left_out.append(f"no {kind.upper()} run on binarized_mnist with test figures in its "
                            "log")
        else:
            chosen[kind] = run
    common = set.intersection(*(set(measured_counts(run.log)) for run in chosen.values())) \
        if chosen else set()
    if not common:
        return pd.DataFrame(), left_out
    frames = []
    for kind, run in chosen.items():
        curve = measured_curve(run.log, max(common))[["updates", "seconds", "log_p"]]
        frames.append(curve.assign(kind=kind, run=run.name, samples=max(common),
                                   minutes=curve["seconds"] / 60))
    return pd.concat(frames, ignore_index=True), left_out


def draw_learning_curves(runs: Sequence[Run], places: Places | None = None) -> Drawing:
    """Figure 4: test log p(x) on MNIST over updates and over time."""
    numbers, left_out = learning_curves(runs)
    if numbers.empty:
        return Drawing(None, left_out=left_out)
    figure = new_figure(2.3)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, over, label in ((panels[0], "updates", "updates"),
                              (panels[1], "minutes", "training time (minutes)")):
        for kind, part in numbers.groupby("kind", sort=False):
            series = SERIES[SERIES_OF_KIND[kind]]
            name = "BiHM" if kind == "bihm" else series.label
            axes.plot(part[over], part["log_p"], **series.line(
                label=name, markersize=2.5, markevery=max(1, len(part) // 12)))
        axes.axhline(paper.MNIST_TEXT["log_p"].value, **PAPER_LINE)
        axes.set_xlabel(label)
    _thousands(panels[0])
    reached = numbers.groupby("kind")["log_p"].max()      # each kind's best has to be in view
    top = paper.MNIST_TEXT["log_p"].value
    panels[0].set_ylim(*_view_of([*numbers["log_p"], top], max(30.0, top - reached.min() + 6)))
    panels[0].set_ylabel(f"test $\\log\\,p(x)$, $K$ = {numbers['samples'].iloc[0]:,} (nats)")
    panels[0].annotate("the paper's BiHM, $-84.3$", (1, paper.MNIST_TEXT["log_p"].value),
                       xycoords=("axes fraction", "data"), xytext=(0, 2),
                       textcoords="offset points", ha="right", va="bottom", fontsize=6.5)
    panel_title(panels[0], "A", "over updates")
    panel_title(panels[1], "B", "over time")
    panels[1].legend(loc="best", handlelength=2.6)
    return Drawing(figure, {"": numbers}, left_out)


# -- one run -------------------------------------------------------------------------------------


def _view_of_run(log: pd.DataFrame, columns: Sequence[str]) -> tuple[float, float]:
    """Limits that show how validation nears its best, whatever the first epochs and overfitting."""
    values = log[columns[-1]].dropna()
    best = values.max()
    lower = min(values.quantile(0.1), best - 1)
    upper = min(log[list(columns)].max().max(), best + (best - lower))
    margin = 0.05 * (upper - lower)
    return lower - margin, upper + margin


def _of_equal_k(log: pd.DataFrame, ks: pd.Series | None) -> list[pd.DataFrame]:
    """Parts of a log whose figures can be compared: with another K begins another line."""
    if ks is None:
        return [log]
    return [part for _, part in log.groupby((ks != ks.shift()).cumsum())]


def draw_run(run: Run) -> Drawing:
    """A run's own course: train and validation log p over updates, test where measured.

    A line breaks where the number of samples of its figures changes.
    """
    log = run.log
    columns = [name for name in ("train_log_p", "valid_log_p") if name in log]
    if log.empty or not columns or not log[columns].notna().any().any():
        return Drawing(None, left_out=[f"{run.name}: no log yet"])
    figure = new_figure(1.9, COLUMN_WIDTH)
    axes = figure.subplots()
    for name, colour, dashes, label, ks in (
            ("train_log_p", "0.55", ":", "training", log.get("samples")),
            ("valid_log_p", "#0b3c6f", "-", "validation", run.validation_counts)):
        if name in columns:
            for part in _of_equal_k(log, ks):
                axes.plot(part["updates"], part[name], color=colour, linestyle=dashes, label=label)
                label = None
    counts = measured_counts(log)
    if counts:
        curve = measured_curve(log, counts[-1])
        axes.plot(curve["updates"], curve["log_p"], color="#d1660a", linestyle="none", marker="s",
                  markersize=2.5, label=f"test, $K$ = {counts[-1]:,}",
                  markevery=max(1, len(curve) // 20))
    axes.set_ylim(*_view_of_run(log, columns))
    axes.set_xlabel("updates")
    axes.set_ylabel("$\\log\\,p(x)$ (nats)")
    _thousands(axes)
    figure.legend(loc="outside upper center", ncols=3, handlelength=1.8, columnspacing=1.2)
    return Drawing(figure, {"": log[["updates", "seconds", *columns]]})

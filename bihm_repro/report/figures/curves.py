"""The paper's Figures 3 and 4 and the curve of one run, from logs, traces and evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bihm_repro.report import paper
from bihm_repro.report.figures.style import (
    COLUMN_WIDTH,
    PAPER_LINE,
    Plot,
    new_figure,
    panel_title,
    series_of,
)
from bihm_repro.report.methods import method_of
from bihm_repro.runs.reader import Run, main_run

__all__ = [
    "learning_curves",
    "measured_counts",
    "measured_curve",
    "plot_comparison",
    "plot_learning_curves",
    "plot_partition_function",
    "plot_run",
    "z_spread",
]

MNIST = "binarized_mnist"
LONG_RUN = 200_000
"""Updates that a run of the learning curves should have, where a method has such a run."""

INNER_STYLES = {1: ("#0b3c6f", "-", "o"), 10: ("#d1660a", "--", "s"), 100: ("#2f8f5b", "-.", "^")}


def _logged_run(runs: Sequence[Run], method: str) -> Run | None:
    """The MNIST run of a method whose log has test measurements from its first epochs on.

    A run of at least ``LONG_RUN`` updates is preferred to a shorter one.
    """
    logged = [
        run
        for run in runs
        if method_of(run) == method and not run.continues_another and measured_counts(run.log)
    ]
    logged = [run for run in logged if run.log["updates"].max() >= LONG_RUN] or logged
    layers = paper.MNIST_LAYERS.get(method)
    found = (main_run(logged, MNIST, kind, layers) for kind in {run.kind for run in logged})
    return next((run for run in found if run is not None), None)


def measured_counts(log: pd.DataFrame) -> list[int]:
    """Return the K at which the log has measured the test log p, ascending."""
    names = [name for name in log.columns if name.startswith("test_log_p_")]
    counts = {name: name[len("test_log_p_") :] for name in names}
    return sorted(int(k) for name, k in counts.items() if k.isdigit() and log[name].notna().any())


def measured_curve(log: pd.DataFrame, samples: int) -> pd.DataFrame:
    """Return the rows with test measurements: updates, seconds, log_p, log_p_star, log_z2."""
    kept = log[log[f"test_log_p_{samples}"].notna()]
    curve = kept[["updates", "seconds"]].copy()
    curve["log_p"] = kept[f"test_log_p_{samples}"]
    curve["log_z2"] = kept.get("log_z2", np.nan)
    curve["log_p_star"] = kept.get(f"test_log_p_tilde_star_{samples}", np.nan) - curve["log_z2"]
    return curve.reset_index(drop=True)


def _thousands(axes: Axes) -> None:
    def text(value: float, _: int) -> str:
        return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"

    axes.xaxis.set_major_formatter(FuncFormatter(text))


def _limits(values: Sequence[float], span: float = 30.0) -> tuple[float, float]:
    """Limits of the likelihood axis: the best, and not more than ``span`` below it."""
    finite = np.asarray([value for value in values if np.isfinite(value)])
    best, worst = finite.max(), finite.min()
    return max(worst, best - span) - 0.5, best + 0.06 * min(span, best - worst) + 0.5


# -- Figure 3 --------------------------------------------------------------------------------------


def plot_partition_function(
    runs: Sequence[Run], data: str = "data", folder: Path | None = None
) -> Plot:
    """Figure 3: 2 log Z over A outer and B all samples; C during training."""
    bihm = [run for run in runs if method_of(run) == "BiHM"]
    layers = paper.MNIST_LAYERS["BiHM"]
    traced = main_run([run for run in bihm if not run.z_trace.empty], MNIST, "bihm", layers)
    trained = main_run([run for run in bihm if _has_z(run)], MNIST, "bihm", layers)
    missing = []
    if traced is None:
        missing.append(
            "A and B: no z_trace.csv of a BiHM run on binarized_mnist (`bihm evaluate "
            "RUN --z-trace` writes it)"
        )
    if trained is None:
        missing.append("C: no log of a BiHM run on binarized_mnist with 2 log Z measured")
    if traced is None and trained is None:
        return Plot(None, missing=missing)
    figure = new_figure(2.3)
    plot = Plot(figure, missing=missing)
    panels = 2 * (traced is not None) + (trained is not None)
    parts = figure.subfigures(1, panels, squeeze=False)[0]
    if traced is not None:
        spread = z_spread(traced.z_trace)
        plot.numbers[""] = spread
        _plot_z(parts[0].subplots(), spread, "k_outer", "A", "outer samples $K_{outer}$")
        _plot_z(parts[1].subplots(), spread, "total", "B", "all samples $K_{outer}\\,K_{inner}$")
    if trained is not None:
        curve = measured_curve(trained.log, measured_counts(trained.log)[-1])
        plot.numbers["-training"] = curve
        _plot_training(parts[-1], curve)
    return plot


def _has_z(run: Run) -> bool:
    return bool(measured_counts(run.log)) and bool(run.log.get("log_z2", pd.Series()).notna().any())


def z_spread(trace: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard deviation over runs of 2 log Z at each K_inner and K_outer."""
    groups = trace.groupby(["k_inner", "k_outer"])["log_z2"]
    spread = groups.agg(mean="mean", deviation="std", runs="count").reset_index()
    spread["deviation"] = spread["deviation"].fillna(0.0)
    spread.insert(2, "total", spread["k_inner"] * spread["k_outer"])
    return spread


def _plot_z(axes: Axes, spread: pd.DataFrame, over: str, letter: str, label: str) -> None:
    for inner, part in spread.groupby("k_inner"):
        colour, dashes, marker = INNER_STYLES.get(inner, ("0.3", ":", "x"))
        low, high = part["mean"] - part["deviation"], part["mean"] + part["deviation"]
        axes.fill_between(part[over], low, high, color=colour, alpha=0.15, linewidth=0)
        runs = int(part["runs"].max())
        axes.plot(
            part[over],
            part["mean"],
            color=colour,
            linestyle=dashes,
            marker=marker,
            markersize=2.5,
            label=f"$K_{{inner}}$ = {inner}" + (f", {runs} runs" if runs > 1 else ""),
        )
    axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("estimate of $2\\,\\log\\,Z$")
    panel_title(axes, letter, {"A": "over outer samples", "B": "over all samples"}[letter])
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.45 * (high - low), high)  # room for the legend below the curves
    axes.legend(loc="lower right", handlelength=2.6)


def _plot_training(part: Figure, curve: pd.DataFrame) -> None:
    upper, lower = part.subplots(2, 1, sharex=True, height_ratios=(1.7, 1))
    marks = {"markersize": 2.5, "markevery": max(1, len(curve) // 12)}
    for column, name in (("log_p", "BiHM"), ("log_p_star", "BiHM p*")):
        series = series_of(name)
        upper.plot(curve["updates"], curve[column], **series.line(label=series.label, **marks))
    upper.set_ylim(*_limits([*curve["log_p"], *curve["log_p_star"]]))
    upper.set_ylabel("test LL (nats)")
    upper.legend(loc="lower right", handlelength=2.6)
    lower.plot(curve["updates"], curve["log_z2"], **series_of("log z2").line(**marks))
    lower.set_ylabel(series_of("log z2").label)
    lower.set_xlabel("updates")
    _thousands(lower)
    panel_title(upper, "C", "during training")


# -- Figure 4 --------------------------------------------------------------------------------------


def learning_curves(runs: Sequence[Run]) -> tuple[pd.DataFrame, list[str]]:
    """Return the test log p of each method at the largest K that all have measured."""
    methods = dict.fromkeys(["BiHM", "RWS", "VAE", "IWAE", *sorted(map(method_of, runs))])
    found = {name: run for name in methods if (run := _logged_run(runs, name)) is not None}
    missing = [
        f"no {name} run on binarized_mnist with test measurements in its log"
        for name in ("BiHM", "RWS", "VAE", "IWAE")
        if name not in found
    ]
    counts = [set(measured_counts(run.log)) for run in found.values()]
    common = set.intersection(*counts) if counts else set()
    if not common:
        return pd.DataFrame(), missing
    frames = []
    for name, run in found.items():
        curve = measured_curve(run.log, max(common))[["updates", "seconds", "log_p"]]
        minutes = curve["seconds"] / 60
        frames.append(curve.assign(method=name, run=run.name, samples=max(common), minutes=minutes))
    return pd.concat(frames, ignore_index=True), missing


def plot_learning_curves(
    runs: Sequence[Run], data: str = "data", folder: Path | None = None
) -> Plot:
    """Figure 4: test log p(x) on MNIST over updates and over time."""
    numbers, missing = learning_curves(runs)
    if numbers.empty:
        return Plot(None, missing=missing)
    figure, published = new_figure(2.45), -paper.MNIST_TEXT["nll_p"]
    panels = figure.subplots(1, 2, sharey=True)
    for axes, over, label in (
        (panels[0], "updates", "updates"),
        (panels[1], "minutes", "training time (minutes)"),
    ):
        for position, (name, part) in enumerate(numbers.groupby("method", sort=False)):
            marks = {"markersize": 2.5, "markevery": max(1, len(part) // 12)}
            line = series_of(name, position).line(label=name, **marks)
            axes.plot(part[over], part["log_p"], **line)
        axes.axhline(published, **PAPER_LINE)
        axes.set_xlabel(label)
    _thousands(panels[0])
    reached = numbers.groupby("method")["log_p"].max()  # the best of every method is in view
    span = max(30.0, published - reached.min() + 6)
    panels[0].set_ylim(*_limits([*numbers["log_p"], published], span))
    panels[0].set_ylabel(f"test $\\log\\,p(x)$, $K$ = {numbers['samples'].iloc[0]:,} (nats)")
    panels[0].annotate(
        f"the paper's BiHM, ${published}$",
        (1, published),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=6.5,
    )
    panel_title(panels[0], "A", "over updates")
    panel_title(panels[1], "B", "over time")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, handlelength=2.6)
    return Plot(figure, {"": numbers}, missing)


# -- single runs -----------------------------------------------------------------------------------


def _limits_of_run(log: pd.DataFrame, columns: Sequence[str]) -> tuple[float, float]:
    """Limits that show validation near its best, whatever the first epochs and overfitting do."""
    values = log[columns[-1]].dropna()
    best = values.max()
    lower = min(values.quantile(0.1), best - 1)
    upper = min(log[list(columns)].max().max(), best + (best - lower))
    margin = 0.05 * (upper - lower)
    return lower - margin, upper + margin


def _of_equal_k(log: pd.DataFrame, counts: pd.Series | None) -> list[pd.DataFrame]:
    """Parts of a log with the same K, since estimates with another K are not comparable."""
    if counts is None:
        return [log]
    return [part for _, part in log.groupby((counts != counts.shift()).cumsum())]


def plot_run(run: Run) -> Plot:
    """Training and validation log p over updates, and the test where measured.

    A line breaks where the number of samples of its estimates changes.
    """
    log = run.log
    columns = [name for name in ("train_log_p", "valid_log_p") if name in log]
    if log.empty or not columns or not log[columns].notna().any().any():
        return Plot(None, missing=[f"{run.name}: no log yet"])
    figure = new_figure(1.9, COLUMN_WIDTH)
    axes = figure.subplots()
    for name, colour, dashes, label, counts in (
        ("train_log_p", "0.55", ":", "training", log.get("samples")),
        ("valid_log_p", "#0b3c6f", "-", "validation", run.validation_counts),
    ):
        if name in columns:
            for number, part in enumerate(_of_equal_k(log, counts)):
                style = {"color": colour, "linestyle": dashes, "label": None if number else label}
                axes.plot(part["updates"], part[name], **style)
    counts = measured_counts(log)
    if counts:
        curve = measured_curve(log, counts[-1])
        axes.plot(
            curve["updates"],
            curve["log_p"],
            color="#d1660a",
            linestyle="none",
            marker="s",
            markersize=2.5,
            label=f"test, $K$ = {counts[-1]:,}",
            markevery=max(1, len(curve) // 20),
        )
    axes.set_ylim(*_limits_of_run(log, columns))
    axes.set_xlabel("updates")
    axes.set_ylabel("$\\log\\,p(x)$ (nats)")
    _thousands(axes)
    figure.legend(loc="outside upper center", ncols=3, handlelength=1.8, columnspacing=1.2)
    return Plot(figure, {"": log[["updates", "seconds", *columns]]})


def plot_comparison(runs: Sequence[Run]) -> Plot:
    """Validation log p of several runs over updates and over time."""
    shown = [run for run in runs if run.log.get("valid_log_p", pd.Series()).notna().any()]
    missing = [f"{run.name}: no validation in its log" for run in runs if run not in shown]
    if not shown:
        return Plot(None, missing=missing)
    figure = new_figure(2.4 + 0.13 * -(-len(shown) // 3))
    panels = figure.subplots(1, 2, sharey=True)
    frames = []
    for position, run in enumerate(shown):
        log = run.log[run.log["valid_log_p"].notna()]
        series = series_of(f"\0{position}", position)
        style = {"color": series.colour, "linestyle": series.dashes if position else "-"}
        panels[0].plot(log["updates"], log["valid_log_p"], label=run.name, **style)
        panels[1].plot(log["seconds"] / 60, log["valid_log_p"], **style)
        frames.append(log[["updates", "seconds", "valid_log_p"]].assign(run=run.name))
    best = [frame["valid_log_p"].max() for frame in frames]
    late = [frame["valid_log_p"].quantile(0.25) for frame in frames]
    panels[0].set_ylim(*_limits([*best, *late], max(30.0, max(best) - min(best) + 5)))
    panels[0].set_ylabel("validation $\\log\\,p(x)$ (nats)")
    panels[0].set_xlabel("updates")
    panels[1].set_xlabel("training time (minutes)")
    _thousands(panels[0])
    handles, labels = panels[0].get_legend_handles_labels()
    labels = [label.replace("$", r"\$") for label in labels]
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return Plot(figure, {"": pd.concat(frames, ignore_index=True)}, missing)

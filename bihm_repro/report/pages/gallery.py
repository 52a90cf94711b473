"""The gallery: one HTML file with the tables, figures, animations and runs of ``results/``.

Figures and animations are embedded as ``bihm figures`` and ``bihm sample`` wrote them; the curve
of each run is plotted from its log.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from bihm_repro import __version__
from bihm_repro.files import to_toml
from bihm_repro.report import paper
from bihm_repro.report.claims import claims_table
from bihm_repro.report.figures import CAPTIONS, FIGURES
from bihm_repro.report.figures.curves import measured_counts, plot_run
from bihm_repro.report.figures.style import style_context
from bihm_repro.report.footnotes import comparable, marks_of, notes_for
from bihm_repro.report.methods import method_of, negative_log_likelihood
from bihm_repro.report.pages import MEDIA, data_url, render
from bihm_repro.report.tables import mnist, uci
from bihm_repro.report.tables.contest import contest_table, without_contest
from bihm_repro.report.tables.depth import depth_table
from bihm_repro.report.tables.runs import runs_table, seeds_table
from bihm_repro.report.tables.schedules import schedules_table
from bihm_repro.report.tables.sleep import sleep_table
from bihm_repro.report.tables.table import Cell, Column, Table, difference, estimate_cell
from bihm_repro.runs.reader import Run

__all__ = ["build_gallery", "curve_png", "log_table"]

LOG_ROWS = 12
LOG_COLUMNS = (
    "phase epoch updates seconds learning_rate samples train_log_p valid_log_p "
    "valid_log_p_tilde_star valid_bound"
).split()
PICTURE_LIMIT = 4_000_000
"""Bytes above which a picture is linked and not embedded, to keep the page small enough to send."""
RUN_FILES = ("recipe.toml", "log.csv", "status.json", "evaluation.json", "model.npz")
PICTURE_CAPTIONS = (
    (r"samples-0", "Samples from p, drawn from the top layer down"),
    (r"samples-(\d+)", "Samples after {0} Gibbs iterations towards p*"),
    (r"samples", "Chains moving from samples of p towards p*"),
    (r"chains", "Chains over time: each row is one chain, Gibbs iterations from left to right"),
    (r"reconstructions", "Test examples above their reconstructions"),
    (r"inpainting-block", "A random block of each picture is hidden and completed"),
    (r"inpainting-(\w+)", "The {0} half of each picture is hidden and completed"),
    (r"inpainting", "A part of each picture is hidden and completed"),
)
"""Captions of what ``bihm sample`` and ``bihm inpaint`` write, by pattern of the file's stem."""


def build_gallery(
    runs: Sequence[Run],
    results: str | Path,
    complaints: Sequence[str] = (),
    page: str | Path | None = None,
) -> str:
    """Return the page as text; links are relative to ``page``, the file it will be written to."""
    results = Path(results)
    page = Path(page or results / "gallery" / "index.html")

    def link(path: Path) -> str:
        return quote(Path(os.path.relpath(path, page.parent)).as_posix())

    figures, missing = _figures(results / "figures", link)
    pictures = _pictures(results, link)
    speed, demo = results / "bench.png", page.parent / "demo.html"
    folded = (
        uci.rws_table,
        uci.models_table,
        uci.details_table,
        seeds_table,
        mnist.samples_table,
        depth_table,
        mnist.mnist_others_table,
        contest_table,
        sleep_table,
        schedules_table,
    )
    shown = {"Tables": True, "Claims": True, "Figures": figures or missing, "Samples": pictures,
             "Speed": speed.is_file(), "Runs": True}  # fmt: skip
    evaluated = sum(run.evaluation is not None for run in runs)
    return render(
        "gallery.html",
        title="Bidirectional Helmholtz Machines, reproduced",
        summary=f"{len(runs)} runs, {evaluated} of them evaluated. Every number of ours comes "
        f"from the evaluation.json of a run. {uci.summary_line(runs)}",
        demo=link(demo) if demo.is_file() else None,
        parts=[name for name, content in shown.items() if content],
        hero=figures.pop("samples", None),
        headline=_headline(runs),
        tables=[build(runs) for build in (uci.uci_table, mnist.mnist_table, mnist.ess_table)],
        folded=[table for build in folded if (table := build(runs)).rows],
        claims=claims_table(runs),
        figures=list(figures.values()),
        missing_figures=missing,
        pictures=pictures,
        speed=_speed(speed, link) if speed.is_file() else None,
        runs_table=runs_table(runs),
        complaints=complaints,
        runs=[_run(run, link) for run in without_contest(runs)],
        version=__version__,
    )


def _headline(runs: Sequence[Run]) -> Table:
    """Ours and the paper's test -log p on every data set."""
    text, star = paper.MNIST_TEXT, "log_p_star"
    rows = [
        ("MNIST, 12 layers: -log p", mnist.mnist_run(runs), "log_p", text["nll_p"], 1),
        ("MNIST, 12 layers: -log p*", mnist.mnist_run(runs), star, text["nll_p_star"], 1),
    ]
    rows += [(entry.name, uci.uci_run(runs, entry), "log_p", entry.nll_p, 2) for entry in paper.UCI]
    cells = []
    for label, run, quantity, quoted, decimals in rows:
        nll = negative_log_likelihood(run, quantity)
        compared = nll if run is not None and comparable(run) else None
        cells.append(
            [
                Cell(label),
                estimate_cell(nll, marks=marks_of(run)),
                Cell(quoted, decimals=decimals),
                difference(compared, quoted, decimals),
            ]
        )
    columns = (
        Column("set", "data set", left=True),
        Column("ours", "ours", estimates=True),
        Column("paper", "paper"),
        Column("difference", "diff."),
    )
    notes = ["Lower is better; ± is one standard error.", *notes_for(row[1] for row in rows)]
    title = "Test negative log-likelihood in nats, our BiHM beside the paper's"
    return Table("headline", title, columns, cells, notes)


def _figures(folder: Path, link: Any) -> tuple[dict[str, dict[str, Any]], list[str]]:
    found, missing = {}, []
    for name in FIGURES:
        path = folder / f"{name}.png"
        if not path.is_file():
            missing.append(name)
            continue
        files = [folder / f"{name}.{suffix}" for suffix in ("png", "pdf", "csv")]
        links = [(file.suffix[1:].upper(), link(file)) for file in files if file.is_file()]
        found[name] = {"source": data_url(path), "caption": CAPTIONS[name], "links": links}
    return found, missing


def _pictures(results: Path, link: Any) -> dict[str, list[dict[str, Any]]]:
    """Pictures and animations of ``bihm sample`` and ``bihm inpaint``, by run."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(results.rglob("*"), key=lambda path: (path.suffix != ".gif", path)):
        inside = path.relative_to(results).parts
        skipped = inside[0] in ("figures", "gallery") or len(inside) < 2
        if path.suffix not in MEDIA or skipped or any(part.startswith(".") for part in inside):
            continue
        small = path.stat().st_size <= PICTURE_LIMIT
        picture = {
            "source": data_url(path) if small else None,
            "caption": _caption(path.stem),
            "name": path.name,
            "href": link(path),
        }
        name = "/".join(part for part in inside[:-1] if part != "pictures")
        groups.setdefault(name, []).append(picture)
    return dict(sorted(groups.items()))


def _caption(stem: str) -> str:
    for pattern, caption in PICTURE_CAPTIONS:
        match = re.fullmatch(pattern, stem)
        if match:
            return caption.format(*match.groups())
    return stem.replace("-", " ").replace("_", " ")


def _speed(path: Path, link: Any) -> dict[str, Any]:
    links = [("PNG", link(path)), ("JSON", link(path.with_suffix(".json")))]
    caption = (
        "Time of one training update and of the estimators, in units of the bare matrix products "
        "they need, for this package and for other implementations of the same model. Shorter is "
        "faster."
    )
    return {"source": data_url(path), "caption": caption, "links": links}


def _run(run: Run, link: Any) -> dict[str, Any]:
    nll = negative_log_likelihood(run)
    remark = f"{method_of(run)} on {run.dataset}, layers {', '.join(map(str, run.layers))}"
    if nll is not None:
        remark += f"; test -log p {nll.value:.2f}{marks_of(run)}"
    files = [run.path / name for name in RUN_FILES if (run.path / name).is_file()]
    curve = curve_png(run)
    return {
        "name": run.name,
        "remark": remark,
        "recipe": to_toml(run.recipe),
        "curve": curve and data_url(curve),
        "links": [(path.name, link(path)) for path in files],
        "log": log_table(run.log),
    }


def curve_png(run: Run) -> bytes | None:
    """Return the learning curve of a run as a PNG; None where it has no log."""
    with style_context():
        plot = plot_run(run)
        if plot.figure is None:
            return None
        buffer = io.BytesIO()
        plot.figure.savefig(buffer, format="png", dpi=160, metadata={"Software": None})
    return buffer.getvalue()


def log_table(log: pd.DataFrame) -> Table | None:
    """Return some rows of the log, the first and the last among them; None without a log."""
    if log.empty:
        return None
    measured = [f"test_log_p_{count}" for count in measured_counts(log)[-1:]]
    names = [name for name in (*LOG_COLUMNS, *measured, "log_z2") if name in log]
    rows = np.unique(np.linspace(0, len(log) - 1, LOG_ROWS).astype(int))
    cells = [
        [Cell(_number(value)) for value in row]
        for row in log.iloc[rows][names].itertuples(index=False)
    ]
    columns = [Column(name, name.replace("_", " ")) for name in names]
    return Table("log", "Log", columns, cells, [f"{len(rows)} of {len(log)} epochs."])


def _number(value: Any) -> str | None:
    if pd.isna(value):
        return None
    if isinstance(value, str):
        return value
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:g}" if abs(value) < 0.1 else f"{value:,.2f}"

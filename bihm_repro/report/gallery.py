"""The gallery: one HTML file with the tables, figures, animations and runs of ``results/``.

Everything is embedded, so the file can be sent to a colleague and opened without a network.
Figures and animations are taken as ``bihm figures`` and ``bihm sample`` left them; the curve of
each run is drawn from its log.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd

from bihm_repro import __version__
from bihm_repro.report import mnist_tables, run_tables, uci_tables
from bihm_repro.report.figures.catalogue import FIGURES, TITLES
from bihm_repro.report.figures.curves import draw_run, measured_counts
from bihm_repro.report.figures.style import look
from bihm_repro.report.html import MEDIA, details, embedded, page, preformatted, table_html
from bihm_repro.report.marks import marks_of
from bihm_repro.runs.reader import Run

__all__ = ["build_gallery"]

LOG_ROWS = 12
LOG_COLUMNS = ("phase", "epoch", "updates", "seconds", "learning_rate", "samples", "train_log_p",
               "valid_log_p", "valid_log_p_tilde_star", "valid_bound")
PICTURE_LIMIT = 4_000_000
"""Bytes above which a picture is named and not embedded, to keep the page one that can be sent."""


def build_gallery(runs: Sequence[Run], results: str | Path,
                  complaints: Sequence[str] = ()) -> str:
    """Return the page as text, from the runs and the files below ``results``."""
    results = Path(results)
    sections = {
        "Tables": _tables(runs),
        "Figures": _figures(results / "figures"),
        "Samples": _pictures(results),
        "Runs": _runs(runs, complaints),
    }
    evaluated = sum(run.evaluation is not None for run in runs)
    lead = (f"{len(runs)} runs, {evaluated} of them evaluated. Every number of ours comes from a "
            f"run's evaluation.json. {uci_tables.summary_line(runs)}")
    footer = (f"Made by bihm-repro {__version__}. The paper: J. Bornschein, S. Shabanian, "
              "A. Fischer, Y. Bengio, Bidirectional Helmholtz Machines, ICML 2016.")
    return page("Bidirectional Helmholtz Machines: our runs beside the paper",
                lead, {name: content for name, content in sections.items() if content}, footer)


def _tables(runs: Sequence[Run]) -> str:
    shown = [uci_tables.uci_table, mnist_tables.mnist_table, mnist_tables.ess_table]
    folded = [uci_tables.rws_table, uci_tables.models_table, uci_tables.details_table,
              uci_tables.seeds_table, mnist_tables.samples_table, mnist_tables.mnist_others_table]
    parts = [table_html(build(runs)) for build in shown]
    for build in folded:
        table = build(runs)
        if table.rows:
            parts.append(details(table.title, "", table_html(table, heading="")))
    return "\n".join(parts)


def _figures(folder: Path) -> str:
    parts, missing = [], []
    for name in FIGURES:
        path = folder / f"{name}.png"
        if path.is_file():
            caption = f"{escape(TITLES[name])}. Files: {escape(path.stem)}.png, .pdf, .csv."
            parts.append(embedded(path, TITLES[name], caption))
        else:
            missing.append(name)
    if missing:
        parts.append(f"<p>Not drawn, for want of a run or of <code>bihm figures</code>: "
                     f"{escape(', '.join(missing))}.</p>")
    return "\n".join(parts)


def _pictures(results: Path) -> str:
    """Pictures and animations left below the results by ``bihm sample`` and ``bihm inpaint``."""
    folders = [results / "figures", results / "gallery"]
    groups: dict[str, list[Path]] = {}
    for path in sorted(results.rglob("*"), key=lambda path: (path.suffix != ".gif", path)):
        inside = path.relative_to(results).parts
        if (path.suffix in MEDIA and not any(folder in path.parents for folder in folders)
                and not any(part.startswith(".") for part in inside)):
            groups.setdefault("/".join(inside[:-1]), []).append(path)
    return "\n".join(_picture_group(name, paths) for name, paths in sorted(groups.items()))


def _picture_group(name: str, paths: Sequence[Path]) -> str:
    parts = []
    for path in paths:
        if path.stat().st_size > PICTURE_LIMIT:
            parts.append(f"<p>{escape(path.name)} is too large to be shown here.</p>")
        else:
            parts.append(embedded(path, f"{name}/{path.name}", escape(path.name), css="pixels"))
    return f'<h3>{escape(name)}</h3><div class="two">{"".join(parts)}</div>'


def _runs(runs: Sequence[Run], complaints: Sequence[str]) -> str:
    parts = [table_html(run_tables.runs_table(runs), heading="")]
    parts += [f"<p>{escape(line)}</p>" for line in complaints]
    parts += [_run(run) for run in runs]
    return "\n".join(parts)


def _run(run: Run) -> str:
    estimate = run.estimate("log_p")
    remark = f"{run.kind} on {run.dataset}, layers {', '.join(map(str, run.layers))}"
    if estimate is not None:
        remark += f"; test -log p {-estimate.value:.2f}{marks_of(run)}"
    recipe = (run.path / "recipe.toml").read_text(encoding="utf-8")
    beside = f'<div class="two"><div>{_curve(run)}</div><div>{preformatted(recipe)}</div></div>'
    return details(run.name, remark, beside + _log(run.log), anchor=f"run-{run.name}")


def _curve(run: Run) -> str:
    with look():
        drawing = draw_run(run)
        if drawing.figure is None:
            return "<p>No log yet.</p>"
        buffer = io.BytesIO()
        drawing.figure.savefig(buffer, format="png", dpi=160, metadata={"Software": None})
    return embedded(buffer.getvalue(), f"Learning curve of {run.name}",
                    "log p(x) over updates: training, validation, and test where measured.")


def _log(log: pd.DataFrame) -> str:
    """Some rows of the log, the first and the last among them."""
    if log.empty:
        return ""
    columns = [name for name in LOG_COLUMNS if name in log]
    measured = [f"test_log_p_{count}" for count in measured_counts(log)[-1:]]
    columns += [name for name in (*measured, "log_z2") if name in log]
    rows = np.unique(np.linspace(0, len(log) - 1, LOG_ROWS).astype(int))
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{_number(value)}</td>" for value in row) + "</tr>"
                   for row in log.loc[rows, columns].itertuples(index=False))
    return (f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
            f'</table></div><ul class="notes"><li>{len(rows)} of {len(log)} epochs.</li></ul>')


def _number(value: float) -> str:
    if pd.isna(value):
        return "—"
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:g}" if abs(value) < 0.1 else f"{value:,.2f}"

"""All tables of the report by name: written as Markdown, CSV and LaTeX, and put into the README.

Every number of ours comes from an ``evaluation.json`` of a run folder, every number of the paper
from ``report.paper``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bihm_repro.errors import InputError
from bihm_repro.files import write_text
from bihm_repro.report import mnist_tables, run_tables, uci_tables
from bihm_repro.report.formats import Table, to_csv, to_latex, to_markdown
from bihm_repro.runs.reader import Run

__all__ = ["GROUPS", "README_BEGIN", "README_END", "build_tables", "readme_block",
           "replace_readme_block", "write_tables"]

Builder = Callable[[Sequence[Run]], Table]

GROUPS: dict[str, tuple[Builder, ...]] = {
    "uci": (uci_tables.uci_table, uci_tables.details_table, uci_tables.models_table,
            uci_tables.rws_table, uci_tables.seeds_table),
    "mnist": (mnist_tables.mnist_table, mnist_tables.mnist_others_table,
              mnist_tables.samples_table),
    "ess": (mnist_tables.ess_table,),
    "runs": (run_tables.runs_table,),
}
"""What the command's names stand for."""

README_BEGIN = "<!-- results:begin -->"
README_END = "<!-- results:end -->"


def build_tables(runs: Sequence[Run], groups: Iterable[str] = ("all",)) -> list[Table]:
    """Build the tables of the named groups (``all`` for every one), each once, in order."""
    wanted = list(groups) or ["all"]
    unknown = [name for name in wanted if name not in (*GROUPS, "all")]
    if unknown:
        raise InputError(f"tables: {unknown[0]!r} is not known; give one or more of "
                         f"{', '.join(GROUPS)}, all")
    return [build(runs) for name, builders in GROUPS.items() if "all" in wanted or name in wanted
            for build in builders]


def write_tables(tables: Iterable[Table], folder: str | Path) -> list[Path]:
    """Write each table as ``.md``, ``.csv`` and ``.tex``; returns the paths."""
    written = []
    for table in tables:
        for suffix, render in ((".md", to_markdown), (".csv", to_csv), (".tex", to_latex)):
            path = Path(folder) / f"{table.name}{suffix}"
            write_text(path, render(table))
            written.append(path)
    return written


def readme_block(runs: Sequence[Run]) -> str:
    """The README's results: the UCI and MNIST tables, seeds and RWS where there are runs."""
    tables = [uci_tables.uci_table(runs), mnist_tables.mnist_table(runs)]
    optional = (uci_tables.rws_table(runs), uci_tables.seeds_table(runs))
    tables += [table for table in optional if _has_ours(table)]
    parts = [to_markdown(table, heading="###") for table in tables]
    return "\n".join(parts)


def _has_ours(table: Table) -> bool:
    columns = [index for index, column in enumerate(table.columns)
               if column.key in ("rws_nll_p", "mean_nll_p")]
    return any(row[index].value is not None for row in table.rows for index in columns)


def replace_readme_block(text: str, block: str, name: str = "README.md") -> str:
    """Put ``block`` between the two marker lines of a README's text."""
    begin, end = text.find(README_BEGIN), text.find(README_END)
    if begin < 0 or end < begin or text.count(README_BEGIN) != 1:
        raise InputError(f"{name}: needs the lines {README_BEGIN} and {README_END}, once and in "
                         "this order, around the place of the tables")
    return f"{text[:begin + len(README_BEGIN)]}\n{block}{text[end:]}"

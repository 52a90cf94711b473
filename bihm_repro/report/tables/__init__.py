"""All tables of the report: built by name, written in three formats, and put into the README.

Every number of ours comes from an ``evaluation.json`` of a run folder, every number of the paper
from ``report.paper``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bihm_repro.errors import InputError
from bihm_repro.files import write_text
from bihm_repro.report.tables.contest import contest_table
from bihm_repro.report.tables.depth import depth_table
from bihm_repro.report.tables.mnist import ess_table, mnist_others_table, mnist_table, samples_table
from bihm_repro.report.tables.runs import runs_table, seeds_table
from bihm_repro.report.tables.schedules import schedules_table
from bihm_repro.report.tables.sleep import sleep_table
from bihm_repro.report.tables.table import Table, to_csv, to_latex, to_markdown
from bihm_repro.report.tables.uci import details_table, models_table, rws_table, uci_table
from bihm_repro.runs.reader import Run

__all__ = [
    "GROUPS",
    "README_BEGIN",
    "README_END",
    "build_tables",
    "readme_block",
    "replace_readme_block",
    "write_tables",
]

GROUPS: dict[str, tuple[Callable[[Sequence[Run]], Table], ...]] = {
    "uci": (uci_table, details_table, models_table, rws_table, seeds_table, schedules_table),
    "mnist": (mnist_table, mnist_others_table, depth_table, samples_table),
    "ess": (ess_table,),
    "contest": (contest_table, sleep_table),
    "runs": (runs_table,),
}
"""The groups of tables that ``bihm tables`` knows by name."""

README_BEGIN = "<!-- results:begin -->"
README_END = "<!-- results:end -->"


def build_tables(runs: Sequence[Run], groups: Iterable[str] = ("all",)) -> list[Table]:
    """Build the tables of the named groups (``all`` for every one), each once, in order."""
    wanted = list(groups) or ["all"]
    unknown = [name for name in wanted if name not in (*GROUPS, "all")]
    if unknown:
        raise InputError(
            f"tables: {unknown[0]!r} is not known; give one or more of {', '.join(GROUPS)}, all"
        )
    return [
        build(runs)
        for name, builders in GROUPS.items()
        if "all" in wanted or name in wanted
        for build in builders
    ]


def write_tables(tables: Iterable[Table], folder: str | Path) -> list[Path]:
    """Write each table as ``.md``, ``.csv`` and ``.tex``; return the paths."""
    written = []
    for table in tables:
        for suffix, render in ((".md", to_markdown), (".csv", to_csv), (".tex", to_latex)):
            written.append(Path(folder) / f"{table.name}{suffix}")
            write_text(written[-1], render(table))
    return written


def readme_block(runs: Sequence[Run]) -> str:
    """Return the README's results: UCI and MNIST, other models, seeds, the contest, sleep."""
    tables = [uci_table(runs), mnist_table(runs)]
    optional = (
        (models_table(runs), "adult"),
        (seeds_table(runs), "mean_nll_p"),
        (contest_table(runs), "bihm_nll_p"),
        (sleep_table(runs), "nll_p"),
    )
    tables += [table for table, key in optional if _has_numbers(table, key)]
    return "\n".join(to_markdown(table, heading="###") for table in tables)


def _has_numbers(table: Table, key: str) -> bool:
    index = [column.key for column in table.columns].index(key)
    return any(row[index].value is not None for row in table.rows)


def replace_readme_block(text: str, block: str, name: str = "README.md") -> str:
    """Put ``block`` between the two marker lines of a README's text."""
    begin, end = text.find(README_BEGIN), text.find(README_END)
    if begin < 0 or end < begin or text.count(README_BEGIN) != 1:
        raise InputError(
            f"{name}: needs the lines {README_BEGIN} and {README_END}, once and in this order, "
            "around the place of the tables"
        )
    return f"{text[: begin + len(README_BEGIN)]}\n{block}{text[end:]}"

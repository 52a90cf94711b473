"""A table whose cells keep their numbers, rendered as Markdown, CSV or LaTeX.

Markdown and LaTeX show rounded values with their standard errors and footnote marks; the CSV holds
full precision, with the standard errors in columns of their own.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import pandas as pd

from bihm_repro.runs.reader import Estimate

__all__ = [
    "MISSING",
    "Cell",
    "Column",
    "Table",
    "difference",
    "estimate_cell",
    "plain_text",
    "to_csv",
    "to_latex",
    "to_markdown",
]

MISSING = "—"
Value = Union[float, int, str, None]

LATEX_CHARACTERS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "—": "---",
    "–": "--",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "§": r"\S{}",
    "¶": r"\P{}",
    "‖": r"$\|$",
    "◊": r"$\diamond$",
    "<": "$<$",
    ">": "$>$",
    "≤": r"$\le$",
    "≈": r"$\approx$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
MARKDOWN_CHARACTERS = str.maketrans({character: f"\\{character}" for character in "\\|`[]<>"})


@dataclass(frozen=True)
class Cell:
    """A value with its standard error, its number of decimals and its footnote marks."""

    value: Value = None
    error: float | None = None
    decimals: int = 2
    marks: str = ""
    signed: bool = False

    @property
    def unmarked(self) -> str:
        """The text without the marks; a missing value is a dash."""
        if self.value is None:
            return MISSING
        if isinstance(self.value, str):
            return plain_text(self.value)
        if isinstance(self.value, int):
            return f"{self.value:,}"
        text = f"{self.value:{'+' if self.signed else ''}.{self.decimals}f}"
        text = text.lstrip("+-") if float(text) == 0 else text  # zero has no sign
        return text if self.error is None else f"{text} ± {self.error:.{self.decimals}f}"

    @property
    def text(self) -> str:
        """The text with the marks."""
        return self.unmarked + self.marks


@dataclass(frozen=True)
class Column:
    """A column's name in the CSV, its title, its title in LaTeX, and whether it holds text.

    A column of ``estimates`` has a second CSV column for the standard errors.
    """

    key: str
    title: str
    latex: str | None = None
    left: bool = False
    estimates: bool = False


@dataclass(frozen=True)
class Table:
    """Name of the files, title, columns, rows of cells, and the notes below."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()


def plain_text(text: object) -> str:
    """Return ``text`` on one line, without control characters.

    >>> plain_text("a\\x1b[31m\\nb")
    'a [31m b'
    """
    # Categories Cc, Cf, Cs and so on: control, invisible formatting and surrogate characters.
    kept = (c if unicodedata.category(c)[0] not in "CZ" else " " for c in str(text))
    return " ".join("".join(kept).split())


def estimate_cell(estimate: Estimate | None, decimals: int = 2, marks: str = "") -> Cell:
    """Return ``value ± standard error``; a dash without marks where there is no estimate."""
    if estimate is None:
        return Cell()
    return Cell(estimate.value, estimate.standard_error, decimals, marks)


def difference(ours: Estimate | None, paper: float | None, decimals: int = 2) -> Cell:
    """Return ours minus the paper's, with its sign; a dash where one of them is missing."""
    if ours is None or paper is None:
        return Cell()
    return Cell(ours.value - paper, decimals=decimals, signed=True)


def to_markdown(table: Table, heading: str = "##") -> str:
    """Return Markdown whose columns are aligned, so that it also reads well in a terminal."""
    notes = "".join(f"\n- {plain_text(note)}" for note in table.notes)
    title = f"{heading} {plain_text(table.title)}\n"
    if not table.rows:
        return f"{title}{notes}\n"
    columns = [_aligned(column, cells) for column, cells in zip(table.columns, zip(*table.rows))]
    lines = "\n".join(f"| {' | '.join(line)} |" for line in zip(*columns))
    return f"{title}\n{lines}\n{notes and notes + chr(10)}"


def _aligned(column: Column, cells: Sequence[Cell]) -> list[str]:
    """The title, the rule below it and the cells, all of one width."""
    room = 0 if column.left else max(len(cell.marks) for cell in cells)
    texts = [
        cell.unmarked.translate(MARKDOWN_CHARACTERS) + cell.marks.ljust(room) for cell in cells
    ]
    width = max(3, *map(len, (column.title, *texts)))
    rule = "-" * width if column.left else "-" * (width - 1) + ":"
    adjust = str.ljust if column.left else str.rjust
    return [adjust(column.title, width), rule, *(adjust(text, width) for text in texts)]


def to_csv(table: Table) -> str:
    """Return the numbers as CSV: full precision, standard errors beside them, and the marks."""
    frame = {}
    for index, column in enumerate(table.columns):
        frame[column.key] = [_csv_value(row[index].value) for row in table.rows]
        if column.estimates:
            frame[f"{column.key}_se"] = [_csv_value(row[index].error) for row in table.rows]
    frame["marks"] = ["".join(dict.fromkeys("".join(c.marks for c in row))) for row in table.rows]
    return pd.DataFrame(frame).to_csv(index=False, lineterminator="\n")


def _csv_value(value: Value) -> str:
    # 10 significant digits: all that float32 arithmetic can know, without 0.30000000000000004.
    if isinstance(value, float):
        return f"{value:.10g}"
    return "" if value is None else plain_text(value)


def _latex_text(text: str) -> str:
    """Escape plain text for LaTeX; p* becomes mathematics."""
    parts = plain_text(text).split("p*")
    return "$p^*$".join("".join(LATEX_CHARACTERS.get(c, c) for c in part) for part in parts)


def _latex_cell(cell: Cell) -> str:
    text = _latex_text(cell.text)
    return f"${text[0]}${text[1:]}" if text[:1] in ("-", "+") and text[1:2].isdigit() else text


def to_latex(table: Table) -> str:
    """Return a ``table`` environment that needs no LaTeX package."""
    layout = "".join("l" if column.left else "r" for column in table.columns)
    titles = [column.latex or _latex_text(column.title) for column in table.columns]
    lines = [titles, *([_latex_cell(cell) for cell in row] for row in table.rows)]
    head, *body = (" & ".join(line) + r" \\" for line in lines)
    caption = " ".join(_latex_text(text.rstrip(".") + ".") for text in (table.title, *table.notes))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            r"\footnotesize",
            rf"\begin{{tabular}}{{{layout}}}",
            r"\hline",
            head,
            r"\hline",
            *body,
            r"\hline",
            r"\end{tabular}",
            rf"\caption{{{caption}}}",
            rf"\label{{table:{table.name}}}",
            r"\end{table}",
            "",
        ]
    )

"""A table once, in three dresses: aligned Markdown, CSV with bare numbers, LaTeX.

A cell keeps its number, so that the CSV holds full precision and a separate column for each
standard error, while Markdown and LaTeX show the rounded text with its footnote marks.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Union

from bihm_repro.runs.reader import Estimate

__all__ = ["MISSING", "Cell", "Column", "Table", "difference", "estimate_cell", "to_csv",
           "to_latex", "to_markdown"]

MISSING = "—"
Value = Union[float, int, str, None]

LATEX_CHARACTERS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "—": "---", "–": "--", "†": r"$\dagger$", "‡": r"$\ddagger$", "§": r"\S{}",
    "¶": r"\P{}", "‖": r"$\|$", "◊": r"$\diamond$", "<": "$<$", ">": "$>$", "≤": r"$\le$",
    "≈": r"$\approx$",
}


@dataclass(frozen=True)
class Cell:
    """A value with its standard error, its decimals and the marks that point to footnotes."""

    value: Value = None
    error: float | None = None
    decimals: int = 2
    marks: str = ""
    signed: bool = False
    suffix: str = ""

    def text(self) -> str:
        """What Markdown shows; a missing value is a dash."""
        if self.value is None:
            return MISSING + self.marks
        if isinstance(self.value, str):
            return self.value + self.marks
        if isinstance(self.value, int):
            return f"{self.value:,}" + self.suffix + self.marks
        shown = _rounded(float(self.value), self.decimals, self.signed)
        error = "" if self.error is None else f" ± {self.error:.{self.decimals}f}"
        return shown + error + self.suffix + self.marks


@dataclass(frozen=True)
class Column:
    """A column's key in the CSV, its title, its title in LaTeX and whether it holds estimates.

    ``left`` aligns text to the left; a column of estimates has a second CSV column for the
    standard errors.
    """

    key: str
    title: str
    latex: str | None = None
    left: bool = False
    estimates: bool = False


@dataclass(frozen=True)
class Table:
    """Title, columns, rows of cells, and the notes under it."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = field(default_factory=tuple)


def _rounded(value: float, decimals: int, signed: bool) -> str:
    text = f"{value:{'+' if signed else ''}.{decimals}f}"
    # An amount that rounds to nothing has no direction.
    return text.lstrip("+-") if float(text) == 0 else text


def estimate_cell(estimate: Estimate | None, decimals: int = 2, marks: str = "",
                  suffix: str = "") -> Cell:
    """Show an estimate as ``value ± standard error``; a dash without marks where there is none."""
    if estimate is None:
        return Cell()
    return Cell(estimate.value, estimate.standard_error, decimals, marks, suffix=suffix)


def difference(ours: Estimate | None, paper: float | None, decimals: int = 2) -> Cell:
    """Ours minus the paper's, with its sign; a dash where one of them is missing."""
    if ours is None or paper is None:
        return Cell()
    return Cell(ours.value - paper, decimals=decimals, signed=True)


def to_markdown(table: Table, heading: str = "##") -> str:
    """Render aligned Markdown that also reads well in a terminal."""
    notes = "".join(f"\n- {note}" for note in table.notes)
    if not table.rows:
        return f"{heading} {table.title}\n{notes}\n"
    grid = [[_escaped(column.title) for column in table.columns]]
    room = [0 if column.left else max(len(row[i].marks) for row in table.rows)
            for i, column in enumerate(table.columns)]
    grid += [[_escaped(cell.text()) + " " * max(0, space - len(cell.marks))
              for cell, space in zip(row, room)] for row in table.rows]
    widths = [max(3, *(len(row[i]) for row in grid)) for i in range(len(table.columns))]
    lines = [_markdown_line(row, widths, table.columns) for row in grid]
    rule = ["-" * width if column.left else "-" * (width - 1) + ":"
            for width, column in zip(widths, table.columns)]
    lines.insert(1, "| " + " | ".join(rule) + " |")
    return f"{heading} {table.title}\n\n" + "\n".join(lines) + "\n" + (notes and notes + "\n")


def _escaped(text: str) -> str:
    return text.replace("|", r"\|")


def _markdown_line(row: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    cells = [text.ljust(width) if column.left else text.rjust(width)
             for text, width, column in zip(row, widths, columns)]
    return "| " + " | ".join(cells) + " |"


def to_csv(table: Table) -> str:
    """Render bare numbers: full precision, standard errors beside them, a column of marks."""
    header: list[str] = []
    for column in table.columns:
        header += [column.key, f"{column.key}_se"] if column.estimates else [column.key]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*header, "marks"])
    for row in table.rows:
        line: list[Value] = []
        for column, cell in zip(table.columns, row):
            line.append(_csv_value(cell.value))
            if column.estimates:
                line.append(_csv_value(cell.error))
        marks = "".join(dict.fromkeys("".join(cell.marks for cell in row)))
        writer.writerow([*line, marks])
    return buffer.getvalue()


def _csv_value(value: Value) -> Value:
    # 10 significant digits: exact for what float32 arithmetic can know, without 0.1+0.2 tails.
    return f"{value:.10g}" if isinstance(value, float) else "" if value is None else value


def latex_text(text: str) -> str:
    """Escape plain text for LaTeX; a p* becomes mathematics."""
    text = text.replace("p*", "\0")
    text = "".join(LATEX_CHARACTERS.get(character, character) for character in text)
    return text.replace("\0", "$p^*$")


def _latex_cell(cell: Cell) -> str:
    text = latex_text(cell.text())
    return f"${text[0]}${text[1:]}" if text[:1] in ("-", "+") and text[1:2].isdigit() else text


def to_latex(table: Table) -> str:
    """Render a ``table`` environment that needs no package beyond LaTeX itself."""
    layout = "".join("l" if column.left else "r" for column in table.columns)
    titles = [column.latex or latex_text(column.title) for column in table.columns]
    lines = [r"\begin{table}", r"\centering", r"\footnotesize", rf"\begin{{tabular}}{{{layout}}}",
             r"\hline", " & ".join(titles) + r" \\", r"\hline"]
    lines += [" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in table.rows]
    caption = " ".join(latex_text(text.rstrip(".") + ".") for text in (table.title, *table.notes))
    lines += [r"\hline", r"\end{tabular}", rf"\caption{{{caption}}}",
              rf"\label{{table:{table.name}}}", r"\end{table}"]
    return "\n".join(lines) + "\n"

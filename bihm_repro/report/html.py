"""The little HTML that the gallery needs: tables, embedded pictures, and the page around them."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

from bihm_repro.report.formats import Cell, Column, Table

__all__ = ["MEDIA", "details", "embedded", "page", "preformatted", "table_html"]

CSS = """
:root { --ink: #1c2430; --soft: #5b6675; --line: #d9dfe7; --wash: #f5f7fa; --accent: #0b3c6f; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
header, main, footer { max-width: 1240px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 40px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 8px; }
h2 { font-size: 22px; margin: 48px 0 12px; padding-top: 12px; border-top: 2px solid var(--accent); }
h3 { font-size: 16px; margin: 28px 0 8px; }
p, li { max-width: 78ch; }
.lead { color: var(--soft); margin: 0 0 16px; }
nav { position: sticky; top: 0; z-index: 1; background: #fffffff2;
  border-bottom: 1px solid var(--line); }
nav div { max-width: 1240px; margin: 0 auto; padding: 8px 24px; display: flex; gap: 20px; }
a { color: var(--accent); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th { border-bottom: 1.5px solid var(--ink); font-weight: 600; }
td.left, th.left { text-align: left; }
tbody tr:hover { background: var(--wash); }
td.better { color: #0a6a3c; font-weight: 600; }
td.worse { color: #a03412; }
td .mark { position: absolute; color: var(--soft); font-weight: 400; }
ul.notes { margin: 8px 0 0; padding-left: 18px; font-size: 13px; color: var(--soft); }
figure { margin: 20px 0 28px; }
figure img { max-width: 100%; height: auto; display: block; }
figure.pixels img { image-rendering: pixelated; }
figcaption { font-size: 13.5px; color: var(--soft); margin-top: 6px; }
details { border: 1px solid var(--line); border-radius: 6px; margin: 10px 0; }
summary { padding: 9px 14px; cursor: pointer; }
summary:hover { background: var(--wash); }
summary span { color: var(--soft); font-size: 14px; margin-left: 10px; }
details > div { padding: 4px 14px 14px; }
pre { background: var(--wash); padding: 12px; font-size: 12.5px; overflow-x: auto; margin: 8px 0; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(330px, 1fr)); gap: 20px; }
.two > * { min-width: 0; }
footer { color: var(--soft); font-size: 13px; padding-top: 32px; padding-bottom: 48px; }
@media print { nav { display: none; } details > div { display: block; } }
"""

MEDIA = {".png": "image/png", ".gif": "image/gif"}
"""The pictures that can be embedded, by suffix."""


def embedded(picture: bytes | Path, alt: str, caption: str = "", css: str = "") -> str:
    """A figure whose picture is part of the page; ``caption`` is HTML, ``alt`` is text."""
    kind = MEDIA[picture.suffix] if isinstance(picture, Path) else "image/png"
    content = picture.read_bytes() if isinstance(picture, Path) else picture
    code = base64.b64encode(content).decode("ascii")
    attribute = f' class="{css}"' if css else ""
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return (f'<figure{attribute}><img alt="{escape(alt)}" src="data:{kind};base64,{code}">'
            f"{below}</figure>")


def table_html(table: Table, heading: str = "h3") -> str:
    """A table, its title above (with no ``heading``, none) and its notes below."""
    title = f"<{heading}>{escape(table.title)}</{heading}>" if heading else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    notes = f'<ul class="notes">{notes}</ul>' if notes else ""
    if not table.rows:
        return title + notes
    head = "".join(f"<th{_left(column)}>{escape(column.title)}</th>" for column in table.columns)
    body = "".join("<tr>" + "".join(_cell(cell, column) for cell, column in
                                    zip(row, table.columns)) + "</tr>" for row in table.rows)
    return (f'{title}<div class="scroll"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>{notes}")


def _left(column: Column) -> str:
    return ' class="left"' if column.left else ""


def _cell(cell: Cell, column: Column) -> str:
    css = _left(column)
    if cell.signed and isinstance(cell.value, float):
        css = f' class="{"better" if round(cell.value, cell.decimals) <= 0 else "worse"}"'
    # Marks take no room, so that the numbers of a column stay below each other.
    text = cell.text()[:len(cell.text()) - len(cell.marks)]
    marks = f'<span class="mark">{escape(cell.marks)}</span>' if cell.marks else ""
    return f"<td{css}>{escape(text)}{marks}</td>"


def details(title: str, remark: str, content: str, anchor: str = "") -> str:
    """A part that opens on a click; ``content`` is HTML."""
    attribute = f' id="{escape(anchor)}"' if anchor else ""
    return (f"<details{attribute}><summary><strong>{escape(title)}</strong>"
            f"<span>{escape(remark)}</span></summary><div>{content}</div></details>")


def preformatted(text: str) -> str:
    """Text as it is, in a box."""
    return f"<pre>{escape(text)}</pre>"


def page(title: str, lead: str, sections: dict[str, str], footer: str) -> str:
    """The whole page: ``sections`` maps a heading to HTML; ``lead`` and ``footer`` are text."""
    anchors = {name: name.lower().replace(" ", "-") for name in sections}
    links = "".join(f'<a href="#{anchors[name]}">{escape(name)}</a>' for name in sections)
    body = "\n".join(f'<section id="{anchors[name]}"><h2>{escape(name)}</h2>\n{content}</section>'
                     for name, content in sections.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>
<body>
<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>
<nav aria-label="Parts of the page"><div>{links}</div></nav>
<main>
{body}
</main>
<footer>{escape(footer)}</footer>
</body>
</html>
"""

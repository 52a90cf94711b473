"""Hostile names, titles and records in the gallery, the watch page and the tables.

No element, attribute or address of the page may come from a run; no control character reaches a
terminal, a table or a page.
"""

from __future__ import annotations

import html.parser
import json
import re
import unicodedata
from pathlib import Path
from typing import Any

from bihm_repro.files import to_toml
from bihm_repro.report.pages.gallery import build_gallery
from bihm_repro.report.pages.watch import build_watch
from bihm_repro.report.tables import build_tables
from bihm_repro.report.tables.table import to_csv, to_latex, to_markdown
from bihm_repro.runs.reader import read_runs
from tests.torture.harness import Case, Failure, Group
from tests.torture.mutations import NASTY_TEXTS
from tests.torture.records import EVALUATION, LOG, RECIPE, STATUS

HOSTILE = (
    *NASTY_TEXTS,
    "<img src=x onerror=torture()>",
    '"><script>torture()</script>',
    "' onmouseover='torture()",
    "</style><script>torture()</script>",
    "{{ 7 * 7 }}{% for x in y %}",
    "javascript:torture()",
    "[torture](javascript:torture())",
    "| a | b |\n|---|---|",
    "\x9b31m\x07\x08",
    "\u200b\u200e\u2066",
    "\\input{/etc/passwd}$%&_#{}~^",
    "=cmd|' /C calc'!A0",
    "<!--",
    "&lt;script&gt;",
    "-rf",
    ".",
    "~",
)


class _Elements(html.parser.HTMLParser):
    """Collects what of a page would run or be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.inside = tag if tag in ("script", "style") else self.inside
        for name, value in attributes:
            text = (value or "").strip().lower()
            address = name in ("href", "src", "srcdoc", "action", "formaction", "xlink:href")
            if name.startswith("on") or (address and text.startswith("javascript:")):
                self.bad.append(f"<{tag} {name}={text[:60]!r}>")

    def handle_endtag(self, tag: str) -> None:
        self.inside = "" if tag == self.inside else self.inside

    def handle_data(self, data: str) -> None:
        if self.inside and "torture" in data:
            self.bad.append(f"<{self.inside}> {data[:60]!r}")


def _name(case: Case) -> str:
    text = case.random.choice(HOSTILE).replace("/", "_").replace("\x00", "")
    name = text.encode("utf-8", "surrogateescape" if "\ud800" not in text else "replace")[:80]
    name = name.decode("utf-8", "ignore").strip(".") or "run"
    return f"{name}{case.random.randrange(100)}"


def _hostile(value: dict[str, Any], case: Case, keys: tuple[str, ...]) -> dict[str, Any]:
    return {
        **value,
        **{key: case.random.choice(HOSTILE) for key in keys if case.random.random() < 0.6},
    }


def _write_run(folder: Path, case: Case) -> None:
    chance = case.random
    folder.mkdir(parents=True, exist_ok=True)
    recipe = _hostile({"dataset": "adult", "seed": 1}, case, ("title", "dataset"))
    recipe["model"] = {"kind": "bihm", "layers": [5, 3]}
    recipe["x-" + chance.choice(HOSTILE)] = chance.choice(HOSTILE)
    try:
        text = to_toml(recipe).encode("utf-8")
    except (ValueError, TypeError):
        text = RECIPE.encode()
    (folder / "recipe.toml").write_bytes(text)
    status = _hostile(STATUS, case, ("engine", "commit", "version", "data_fingerprint"))
    (folder / "status.json").write_text(json.dumps(status))
    evaluation = _hostile(EVALUATION, case, ("dataset", "commit", "data_exactness", "model_kind"))
    if chance.random() < 0.7:
        (folder / "evaluation.json").write_text(json.dumps(evaluation))
    if chance.random() < 0.15:
        (folder / "log.csv").write_text(LOG)
    if chance.random() < 0.3:
        (folder / f"{_name(case)}.png").write_bytes(b"\x89PNG" + chance.randbytes(20))


def _attack(prepared: None, case: Case) -> str:
    results = case.folder / "results"
    for _ in range(case.random.choice((1, 2, 3))):
        _write_run(results / _name(case), case)
    runs, complaints = read_runs(results)
    for line in complaints:
        _check_text("a complaint", line, "")
    page = build_gallery(runs, results, complaints)
    _check_page("gallery", page)
    if runs and case.random.random() < 0.3:
        _check_page("watch page", build_watch([run.path for run in runs], 5)[0])
    for table in build_tables(runs):
        for write in (to_markdown, to_csv, to_latex):
            _check_text(f"table {table.name}", write(table), "\n")
        lines = [line for line in to_markdown(table).splitlines() if line.startswith("| ")]
        plain = [re.sub(r"\\.", "", line) for line in lines]  # without what is escaped
        if len({line.count("|") for line in plain}) > 1 or any("<" in line for line in plain):
            raise Failure(f"table {table.name} is broken by {lines!r}"[:400])
    case.counts["runs shown"] += len(runs)
    return "accepted" if runs else "refused"


def _check_page(what: str, page: str) -> None:
    _check_text(what, page, "\n\t")
    parser = _Elements()
    parser.feed(page)
    if parser.bad:
        raise Failure(f"{what}: {parser.bad[0]}")
    page.encode("utf-8")


def _check_text(what: str, text: str, allowed: str) -> None:
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in allowed:
            at = text.index(character)
            raise Failure(f"{what} has {character!r} in {text[max(0, at - 60) : at + 20]!r}")


def _prepare(folder: Path) -> None:
    return None


GROUP = Group("pages", 0.7, _prepare, _attack)

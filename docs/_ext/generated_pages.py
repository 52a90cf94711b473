"""Pages made from the code and from files of the repository, in ``docs/generated/``."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from benchmarks.communication import bytes_of_models
from benchmarks.scaling_page import page
from bihm_repro.cli.main import build_parser
from bihm_repro.files import read_toml
from bihm_repro.recipes.extends import find_recipe, recipe_names
from bihm_repro.recipes.recipe import SECTIONS, Phase, Recipe

ROOT = Path(__file__).parent.parent.parent
PAGES = {
    "results/README.md": "results",
    "results/claims.md": "claims",
    "results/trials.md": "trials",
    "results/tables/uci.md": "uci",
    "results/tables/mnist.md": "mnist",
    "results/tables/depth.md": "depth",
    "results/tables/seeds.md": "seeds",
    "results/tables/contest.md": "contest",
    "results/tables/sleep.md": "sleep",
    "results/tables/schedules.md": "schedules",
    "results/tables/runs.md": "runs",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "SECURITY.md": "security",
}
"""Files of the repository, and the pages they become."""


def cell(text: Any) -> str:
    """Escape ``text`` for a table."""
    return str(text).replace("|", "\\|")


def table(cls: type) -> list[str]:
    """Return the settings of a section as a Markdown table."""
    lines = ["| setting | default | meaning | allowed |", "|---|---|---|---|"]
    for item in fields(cls):
        if "setting" in item.metadata:
            default = "" if item.default in (MISSING, None, "") else f"`{cell(item.default)}`"
            rule, doc = item.metadata["setting"], item.metadata["doc"]
            lines.append(f"| `{item.name}` | {default} | {cell(doc)} | {cell(rule.allowed)} |")
    return lines


def recipe_reference() -> str:
    """Return the reference of all settings, and the list of recipes."""
    lines = [
        "# Recipes",
        "",
        "A recipe is a TOML file that states what differs from these defaults; they are the "
        'paper\'s. `extends = "mnist"` takes the settings of another recipe first, '
        "`bihm recipes show NAME` prints a recipe complete, and `--set model.layers=[9,3]` changes "
        "a setting on the command line. This page is generated from "
        "`bihm_repro/recipes/sections.py`.",
        "",
        "## At the top",
        "",
        *table(Recipe),
    ]
    for name, cls in [*SECTIONS.items(), ("phases", Phase)]:
        brackets = f"`[[{name}]]`" if name == "phases" else f"`[{name}]`"
        doc = " ".join((cls.__doc__ or "").split())
        lines += ["", f"## {brackets}", "", doc, "", *table(cls)]
    lines += ["", "## Recipes that come with the package", "", "| name | title |", "|---|---|"]
    for name in recipe_names():
        title = read_toml(find_recipe(name)).get("title", "")
        lines.append(f"| `{name}` | {cell(title)} |")
    return "\n".join([*lines, ""])


def command_reference() -> str:
    """Return the commands with their options, as ``--help`` prints them."""
    parser = build_parser()
    lines = ["# Commands", "", "`bihm COMMAND --help` prints the same.", ""]
    for action in parser._subparsers._group_actions:  # type: ignore[union-attr]
        for name, command in action.choices.items():  # type: ignore[union-attr]
            text = command.format_help().rstrip()
            lines += [f"## bihm {name}", "", "```text", text, "```", ""]
    return "\n".join(lines)


def link(match: re.Match[str], folder: Path) -> str:
    """Return a link to the page that a file became, or the text of the link alone."""
    text, target = match[1], match[2]
    if "://" in target or target.startswith(("#", "mailto:")):
        return match[0]
    path, _, anchor = target.partition("#")
    found = (ROOT / folder / path).resolve()
    try:
        name = found.relative_to(ROOT.resolve()).as_posix()
    except ValueError:
        return text
    if name in PAGES:
        return f"[{text}]({PAGES[name]}.md)"
    if name.startswith("docs/") and name.endswith((".md", ".ipynb")):
        return f"[{text}](../{name[5:]})"
    return text if text.startswith("`") else f"{text} (`{name}`)"


def copied(source: str) -> str:
    """Return the text of a file with links that work in the site."""
    text = (ROOT / source).read_text(encoding="utf-8")
    folder = Path(source).parent
    text = re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", lambda m: link(m, folder), text)
    return re.sub(r"(?m)^#(#+ )", r"\1", text) if text.startswith("## ") else text


def scaling() -> str:
    """Return what workers and hosts cost, as measured in ``results/scaling.json``."""
    path = ROOT / "results" / "scaling.json"
    if path.exists():
        return page(json.loads(path.read_text(encoding="utf-8")))
    return page({"communication": bytes_of_models()})


def write_pages(app: Any) -> None:
    """Write all generated pages."""
    folder = Path(app.srcdir) / "generated"
    folder.mkdir(exist_ok=True)
    pages = {"recipes": recipe_reference(), "commands": command_reference()}
    pages.update({name: copied(source) for source, name in PAGES.items()})
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "scaling.inc").write_text(scaling(), encoding="utf-8")  # part of howto/cost.md


def mark_fields(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Prepare a docstring for napoleon: lists of ``name : meaning``, bars of q(h|x)."""
    first = next((i for i, line in enumerate(lines) if re.match(r"\w[\w, ]* : ", line)), None)
    if first is not None and not any(re.match("---", line) for line in lines):
        lines[first:first] = ["Parameters", "----------"]
    for i, line in enumerate(lines):
        parts = line.split("``")
        lines[i] = "``".join(p if j % 2 else p.replace("|", "\\|") for j, p in enumerate(parts))


def setup(app: Any) -> dict[str, Any]:
    """Write the pages before Sphinx reads them."""
    app.connect("autodoc-process-docstring", mark_fields, priority=400)
    app.connect("config-inited", lambda app, config: write_pages(app))
    return {"parallel_read_safe": True}

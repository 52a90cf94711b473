"""The documentation: its tutorial runs, and what it names exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from bihm_repro.recipes.recipe import SECTIONS, Phase, Recipe

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("howto/*.md"), *ROOT.glob("*.md")])


@pytest.mark.slow
def test_the_tutorial_runs(monkeypatch):
    import matplotlib

    matplotlib.use("agg")
    notebook = json.loads((DOCS / "tutorial.ipynb").read_text(encoding="utf-8"))
    names: dict = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []  # outputs are made by the build
            exec("".join(line for line in cell["source"] if line[0] != "%"), names)
    close = names["bars"].entropy + names["found"].log_p.mean()
    assert -0.15 < close < 0.1  # nats; no model has an expected log p above minus the entropy
    assert names["ess"].p_star.mean() > names["ess"].p.mean()
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_that_a_page_names_exist(page):
    folders = (ROOT, ROOT / "bihm_repro", DOCS)
    for name in re.findall(r"`([\w./-]+\.(?:py|md|toml))`", page.read_text(encoding="utf-8")):
        if name not in ("mine.toml", "recipe.toml") and "NAME" not in name:
            found = any((folder / name).exists() for folder in folders)
            assert found or list((ROOT / "bihm_repro").rglob(name)), name


def test_the_functions_that_the_theory_page_names_exist():
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "bihm_repro").rglob("*.py")
    )
    text = (DOCS / "theory.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(\w+(?:\.\w+)?)(?:\([^`]*\))?`", text))
    assert {"estimate_log_z2", "HelmholtzMachine.infer"} <= names
    for name in names:
        for part in name.split("."):
            found = rf"\b(def|class) {part}\b|\b{part}\b\s*[:=]|[\"']{part}[\"']"
            assert re.search(found, source), name


def test_every_equation_and_the_algorithm_have_a_place():
    text = (DOCS / "theory.md").read_text(encoding="utf-8")
    for number in range(1, 8):
        assert re.search(rf"\*\*(Equation )?{number}\*\*", text), number
    assert "## Algorithm 1" in text


def test_the_recipe_reference_has_every_setting_with_its_meaning():
    pytest.importorskip("docutils")
    from generated_pages import recipe_reference

    text = recipe_reference()
    for cls in (*SECTIONS.values(), Phase, Recipe):
        for item in fields(cls):
            if "setting" in item.metadata:
                assert item.metadata["doc"], f"{cls.__name__}.{item.name} has no meaning"
                assert f"| `{item.name}` |" in text and item.metadata["doc"] in text


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path):
    for module in ("sphinx", "myst_nb", "furo", "latex2mathml"):
        pytest.importorskip(module)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "-q",
        "-D",
        "nb_execution_mode=off",
        str(DOCS),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    pages = [page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")]
    assert len(pages) > 15
    for page in pages:  # nothing is loaded from the network
        assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=\"(https?:)?//", page)

"""What a newcomer meets first: pins, Makefile, README, licence."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements(lines):
    """Name to version rule, without spaces and markers."""
    found = {}
    for line in lines:
        name, rule = re.match(r"\s*([A-Za-z0-9_.-]+)\s*([^;]*)", line).groups()
        found[name.lower()] = rule.replace(" ", "")
    return found


def test_conda_environment_is_in_step_with_the_pins(project):
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    conda = requirements(re.findall(r"^\s+- ([a-z].*)$", text, re.MULTILINE))
    extras = project["optional-dependencies"]
    wanted = {**requirements(project["dependencies"]), **requirements(extras["theano"])}
    for name, rule in wanted.items():
        assert conda.get(name) == rule, name


def test_the_package_carries_the_recipes():
    """The wheel is built through a link; every recipe is a file that its pattern names."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert "*.toml" in settings["setuptools"]["package-data"]["*"]
    carried = ROOT / "bihm_repro" / "run_exps"
    names = {path.relative_to(carried) for path in carried.rglob("*.toml")}
    assert (
        names
        == {
            path.relative_to(ROOT / "run_exps")
            for path in (ROOT / "run_exps").rglob("*")
            if path.is_file()
        }
        and len(names) > 30
    )


def test_console_script_and_extras(project):
    assert project["scripts"]["bihm"] == "bihm_repro.cli.main:main"
    assert {"test", "theano", "pytensor"} <= set(project["optional-dependencies"])


def test_readme_names_only_targets_and_commands_that_exist():
    from bihm_repro.cli.main import COMMANDS

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE))
    assert {"mnist", "uci-tables", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for command in re.findall(r"^bihm ([a-z]+)", readme, re.MULTILINE):
        assert command in COMMANDS


def test_licence_and_citation_are_there():
    assert "BSD 3-Clause" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "Bidirectional Helmholtz Machines" in citation and "Bornschein" in citation


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_says_which_python_to_install(tmp_path):
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        ["make", "setup", "PYTHON=no-such-python", "ENGINE=theano"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "no-such-python does not fit" in done.stderr and "3.9 to 3.11" in done.stderr
    assert not (tmp_path / ".venv").exists()

"""The import order of the package, read from the source: lazy and typing imports included."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bihm_repro

ROOT = Path(bihm_repro.__file__).parent
ORDER = [
    "errors",
    "files",
    "progress",
    "engine",
    "ops",
    "bricks",
    "models",
    "recipes",
    "runs",
    "datasets",
    "samplers",
    "estimators",
    "training",
    "cluster",
    "report",
    "api",
    "cli",
]
"""A file imports only from its own folder and from those before it."""

ALLOWED = {
    # The package's own face: names that are imported when they are asked for.
    ("__init__", "api"),
    ("__main__", "cli"),
}

KNOWN_VIOLATIONS: set[tuple[str, str]] = set()
"""(file, module) pairs that remain to be removed; nothing may be added."""

NEVER_THE_ENGINE = [
    "models.registry",
    "bricks.registry",
    "recipes.recipe",
    "runs.layout",
    "runs.reader",
    "datasets",
    "samplers.from_run",
    "samplers.helmholtz",
    "samplers.gaussian",
    "samplers.gibbs",
    "samplers.inpainting",
    "report.figures",
]


def imported_modules(path: Path, typing: bool = True) -> set[str]:
    """All modules of the package that the file at ``path`` imports anywhere in its text.

    Without ``typing``, those under ``if TYPE_CHECKING`` are left out.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = (
        []
        if typing
        else [
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for statement in node.body
            for inner in ast.walk(statement)
        ]
    )
    found = set()
    for node in ast.walk(tree):
        if any(node is other for other in skipped):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT.parent).with_suffix("").parts
            base = ".".join(package[: -node.level]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return {name for name in found if is_module(name)}


def is_module(name: str) -> bool:
    """Whether ``name`` is a module or folder of the package."""
    parts = name.split(".")
    path = ROOT.parent.joinpath(*parts)
    return parts[0] == ROOT.name and (path.is_dir() or path.with_suffix(".py").is_file())


def part_of(module: str) -> str:
    """The folder, or the file at the top of the package, that ``module`` belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def graph(typing: bool = True) -> list[tuple[str, str]]:
    """(file, imported module) for each file of the package."""
    return [
        (path.relative_to(ROOT).as_posix(), module)
        for path in sorted(ROOT.rglob("*.py"))
        for module in sorted(imported_modules(path, typing))
    ]


def is_in_order(file: str, module: str) -> bool:
    mine, theirs = file.split("/")[0].removesuffix(".py"), part_of(module)
    # ``from bihm_repro import __version__`` and ``from bihm_repro.x import y`` name the package.
    if mine == theirs or theirs == "__init__" or (mine, theirs) in ALLOWED:
        return True
    return ORDER.index(theirs) < ORDER.index(mine)


def test_every_part_of_the_package_has_its_place():
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")}
    assert parts - set(ORDER) <= {"__init__", "__main__"}


def test_files_import_only_from_folders_before_their_own():
    wrong = {(file, module) for file, module in graph() if not is_in_order(file, module)}
    assert wrong - KNOWN_VIOLATIONS == set(), "imports against the order"
    assert KNOWN_VIOLATIONS - wrong == set(), "no longer violations: remove them from the list"


def test_the_reader_of_imports_sees_lazy_typing_and_relative_ones(tmp_path, monkeypatch):
    text = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from bihm_repro.cli import "
        "main\ndef f():\n    import bihm_repro.engine.symbolic\n    from . import adam\n"
    )
    folder = tmp_path / "bihm_repro" / "ops"
    folder.mkdir(parents=True)
    (folder / "new.py").write_text(text)
    (folder / "adam.py").write_text("")
    for name in ("cli/main.py", "engine/symbolic.py"):
        (tmp_path / "bihm_repro" / name).parent.mkdir()
        (tmp_path / "bihm_repro" / name).write_text("")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path / "bihm_repro")
    found = imported_modules(folder / "new.py")
    assert found == {
        "bihm_repro.cli",
        "bihm_repro.cli.main",
        "bihm_repro.engine.symbolic",
        "bihm_repro.ops",
        "bihm_repro.ops.adam",
    }
    assert "bihm_repro.cli" not in imported_modules(folder / "new.py", typing=False)
    assert not is_in_order("ops/new.py", "bihm_repro.cli.main")
    assert is_in_order("ops/new.py", "bihm_repro.engine.symbolic")


def test_there_is_no_cycle_between_files():
    edges: dict[str, set[str]] = {}
    for file, module in graph(typing=False):
        name = ".".join([ROOT.name, *Path(file).with_suffix("").parts]).removesuffix(".__init__")
        if name != module and module.count(".") > 1:
            edges.setdefault(name, set()).add(module)
    edges = {
        name: {to for to in targets if not name.startswith(f"{to}.")}
        for name, targets in edges.items()
    }
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            for target in sorted(edges.get(name, ())):
                visit(target, (*path, name))
            done.add(name)

    for name in sorted(edges):
        visit(name, ())


@pytest.mark.parametrize("modules", [NEVER_THE_ENGINE])
def test_what_needs_no_engine_does_not_import_it(modules):
    script = "; ".join(
        [f"import bihm_repro.{name}" for name in modules]
        + [
            "from bihm_repro.models.registry import kinds, kind",
            "[kind(name) for name in kinds()]",
            "import sys",
            "print(sorted({'theano', 'pytensor', 'jax'} & set(sys.modules)))",
        ]
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_kinds_of_models_are_listed_in_the_registry_only():
    """Code that tests the kind by its name would miss the kinds of others."""
    from bihm_repro.models.registry import kinds

    found = []
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if file.split("/")[0] in ("report",) or file == "models/registry.py":
            continue  # the report names the methods of the paper's tables
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                constants = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)}
                if constants & set(kinds()):
                    found.append(f"{file}:{node.lineno}")
    assert found == []

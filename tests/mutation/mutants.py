"""The mutants of a source file: one operator, number, condition or statement changed."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed file: the line, what is replaced there by what, and the bytes of the new file."""

    line: int
    text: str
    old: str
    new: str
    in_function: bool
    source: bytes

    @property
    def change(self) -> str:
        """What is replaced by what, on one line."""
        return f"{' '.join(self.old.split())} -> {' '.join(self.new.split())}"


def mutants_of(source: bytes) -> list[Mutant]:
    """Return all mutants of ``source``, in the order of the file."""
    return list(_Mutants(source).found(ast.parse(source), False))


class _Mutants:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0, *itertools.accumulate(map(len, self._lines))]

    def found(self, node: Any, inside: bool) -> Iterator[Mutant]:
        """Yield the mutants of ``node`` and of what is in it; not those of messages and types."""
        for new in _changed(node):
            yield self._mutant(node, new, inside)
        for child in _children(node):
            function = isinstance(node, (ast.FunctionDef, ast.Lambda))
            yield from self.found(child, inside or (function and child not in _defaults(node)))

    def _mutant(self, node: Any, new: str, inside: bool) -> Mutant:
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        old, new = self._source[start:end].decode(), new.replace("\n", " ")
        changed = self._source[:start] + new.encode() + self._source[end:]
        text = self._lines[node.lineno - 1].decode().strip()
        return Mutant(node.lineno, text, old, new, inside, changed)


def _children(node: Any) -> list[Any]:
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return []
    if isinstance(node, ast.FunctionDef):
        return [*_defaults(node), *node.body]
    if isinstance(node, ast.ClassDef):
        return node.body
    if isinstance(node, ast.AnnAssign):
        return [node.value] if node.value else []
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return []
    return list(ast.iter_child_nodes(node))


def _defaults(node: Any) -> list[Any]:
    return [item for item in (*node.args.defaults, *node.args.kw_defaults) if item is not None]


def _changed(node: Any) -> Iterator[str]:
    """Yield replacements of ``node`` as source."""
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            new = copy.deepcopy(node)
            new.ops[i] = SWAPS[type(operator)]()
            yield f"({ast.unparse(new)})"
    elif isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPS:
        new = copy.deepcopy(node)
        new.op = SWAPS[type(node.op)]()
        yield f"({ast.unparse(new)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        yield repr(not node.value if isinstance(node.value, bool) else node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield f"({ast.unparse(node.orelse)})"
        yield f"({ast.unparse(node.body)})"
    elif isinstance(node, (ast.Raise, ast.AugAssign)):
        yield "pass"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "pass"

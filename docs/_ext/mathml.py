"""Formulas as MathML, which browsers show without a script and without a network."""

from __future__ import annotations

from typing import Any, NoReturn

from docutils import nodes
from latex2mathml.converter import convert


def mathml(latex: str, display: str = "inline") -> str:
    """Return a formula as MathML, with a thin space after the names of functions."""
    found = convert(latex, display=display)
    return found.replace("<mi>log</mi>", '<mi>log</mi><mspace width="0.17em"/>')


def inline(self: Any, node: nodes.Node) -> NoReturn:
    """Write an inline formula."""
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def block(self: Any, node: nodes.Node) -> NoReturn:
    """Write a formula on a line of its own."""
    self.body.append(f"<p>{mathml(node.astext(), 'block')}</p>")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

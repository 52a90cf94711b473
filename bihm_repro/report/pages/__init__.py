"""HTML pages: the gallery, the demo and the page of a run in progress, from Jinja2 templates.

A page is one file with everything in it, so it can be sent to somebody and opened without a
network. All text is escaped, and control characters are removed.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

__all__ = ["MEDIA", "data_url", "render"]

MEDIA = {".png": "image/png", ".gif": "image/gif"}
"""The types of pictures that can be embedded, by suffix."""


def _printable(value: Any) -> Any:
    """Remove control and invisible formatting characters from text, except for line breaks."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(c for c in value if c in "\n\t" or unicodedata.category(c)[0] != "C")


def _with_links(text: str) -> Markup:
    """Return escaped text in which files such as ``figures/samples.png`` are links.

    >>> _with_links("see figures/samples.png")
    Markup('see <a href="../figures/samples.png">figures/samples.png</a>')
    """
    link = r'<a href="../\g<0>">\g<0></a>'
    return Markup(re.sub(r"\bfigures/[\w-]+\.png\b", link, str(escape(_printable(text)))))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bihm_repro.report.pages", "templates"),
        autoescape=True,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["with_links"] = _with_links
    return environment


def render(template: str, **values: Any) -> str:
    """Return the page of a template of this package."""
    return _environment().get_template(template).render(**values)


def data_url(picture: bytes | Path) -> str:
    """Return a picture as the text of a ``src`` attribute; bytes are those of a PNG."""
    kind = MEDIA[picture.suffix] if isinstance(picture, Path) else "image/png"
    content = picture.read_bytes() if isinstance(picture, Path) else picture
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"

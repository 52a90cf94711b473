"""What a terminal shows: a progress bar, shown on a terminal only, and text safe to print."""

from __future__ import annotations

import sys
import unicodedata
from typing import Any, TextIO

from tqdm import tqdm

__all__ = ["printable", "progress", "say"]


def printable(text: Any) -> str:
    r"""Return ``text`` with control, formatting and unpaired surrogate characters escaped.

    For every name and title that comes from a file, before it goes to a terminal or into a page.

    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb\\x0a'
    """
    return "".join(
        character
        if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else _escaped(ord(character))
        for character in str(text)
    )


def _escaped(code: int) -> str:
    if code < 256:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def progress(
    iterable: Any = None,
    *,
    total: int | None = None,
    desc: str = "",
    unit: str = "it",
    unit_scale: bool = False,
    quiet: bool = False,
) -> tqdm:
    """Return a bar on standard error that shows itself only on a terminal, and not if ``quiet``.

    Use it around an iterable, or with ``total`` and calls of its ``update(n)``.
    """
    return tqdm(
        iterable,
        total=total,
        desc=desc,
        unit=unit,
        unit_scale=unit_scale,
        disable=quiet or not sys.stderr.isatty(),
        dynamic_ncols=True,
        leave=False,
    )


def say(line: Any, file: TextIO | None = None) -> None:
    """Print a line with what a terminal must not receive escaped, and flush it."""
    print(printable(line), file=file or sys.stdout, flush=True)

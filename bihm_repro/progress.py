"""A progress bar with rate and time left; silent where nobody watches."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm

__all__ = ["progress"]


def progress(iterable: Any = None, *, total: int | None = None, desc: str = "",
             unit: str = "it", unit_scale: bool = False) -> tqdm:
    """Return a bar on standard error that shows itself only on a terminal.

    Use it around an iterable, or with ``total`` and calls of its ``update(n)``.
    """
    return tqdm(iterable, total=total, desc=desc, unit=unit, unit_scale=unit_scale,
                disable=not sys.stderr.isatty(), dynamic_ncols=True, leave=False)

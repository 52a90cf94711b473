"""Grids of grey pictures as PNG files and animated GIFs; 1 is black, as ink on paper."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.files import written_atomically

__all__ = ["BRIGHT", "grid", "parse_shape", "write_gif", "write_png"]

BRIGHT = ("tfd", "fer2013")
"""Data sets whose pixels are bright where they are 1: photographs, not ink."""
GAP = 0.2
"""Grey level between pictures, so that a picture's own white border differs from it."""
VISIBLE = 56
"""Pictures are enlarged by an integer factor to at least about this many pixels."""


def parse_shape(text: str) -> tuple[int, int]:
    """Read a picture's rows and columns from such as ``28x28``."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"shape: {text!r}; expected ROWSxCOLUMNS, such as 28x28")
    return int(parts[0]), int(parts[1])


def grid(
    pictures: np.ndarray, shape: tuple[int, int], columns: int | None = None, enlarge: int = 0
) -> np.ndarray:
    """Put pictures in rows of ``columns`` (as square as can be by default); returns uint8.

    ``pictures`` has shape (n, rows * columns) with values in [0, 1]; ``enlarge`` is the factor
    each pixel is repeated by, 0 for one that makes small pictures visible.

    >>> grid(np.ones((2, 4)), (2, 2), enlarge=1).shape
    (4, 7)
    """
    rows, wide = shape
    pictures = np.asarray(pictures)
    if pictures.ndim != 2 or pictures.shape[1] != rows * wide or len(pictures) == 0:
        raise InputError(
            f"shape: {rows}x{wide} has {rows * wide} pixels, but the pictures have "
            f"{pictures.shape[-1]} values; give a shape with as many pixels as the data has values"
        )
    columns = min(columns or math.ceil(math.sqrt(len(pictures))), len(pictures))
    lines = math.ceil(len(pictures) / columns)
    enlarge = enlarge or max(1, math.ceil(VISIBLE / max(shape)))
    gap = max(1, enlarge // 2)
    height, width = rows * enlarge, wide * enlarge
    canvas = np.full((lines * (height + gap) + gap, columns * (width + gap) + gap), GAP)
    for index, picture in enumerate(pictures):
        top, left = gap + index // columns * (height + gap), gap + index % columns * (width + gap)
        pixels = picture.reshape(rows, wide).repeat(enlarge, axis=0).repeat(enlarge, axis=1)
        canvas[top : top + height, left : left + width] = pixels
    return np.round(255 * (1 - np.clip(canvas, 0, 1))).astype(np.uint8)


def write_png(path: str | os.PathLike[str], pixels: np.ndarray) -> None:
    """Write ``pixels``, uint8 (height, width), as a grey PNG."""
    from PIL import Image

    with written_atomically(path) as temporary:
        Image.fromarray(pixels).save(temporary, format="PNG", optimize=True)


def write_gif(
    path: str | os.PathLike[str], frames: Sequence[np.ndarray], seconds: float = 6.0
) -> None:
    """Write ``frames``, uint8 (height, width) each, as an endless GIF of about ``seconds``.

    The last frame stays for a second.
    """
    from PIL import Image

    pictures = [Image.fromarray(frame) for frame in frames]
    # Browsers slow down frames of less than 20 ms.
    each = max(40, round(1000 * seconds / len(pictures)))
    durations = [each] * (len(pictures) - 1) + [1000]
    with written_atomically(path) as temporary:
        pictures[0].save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=pictures[1:],
            duration=durations,
            loop=0,
        )

"""One look for all figures: sizes of a two-column page, fonts, and series that differ in grey.

Each kind of series has a colour, a line style and a marker of its own, so that it is known again
in every figure and without colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

__all__ = ["COLUMN_WIDTH", "PAGE_WIDTH", "PAPER_LINE", "SERIES", "Drawing", "Places", "Series",
           "image_grid", "look", "new_figure", "panel_title"]

COLUMN_WIDTH = 3.25
PAGE_WIDTH = 6.75
"""Inches: one column, and both with the gap between them."""

SETTINGS = {
    "font.family": "DejaVu Sans", "font.size": 7.5, "axes.labelsize": 7.5, "axes.titlesize": 8,
    "figure.titlesize": 8,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7, "legend.frameon": False,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "0.9", "grid.linewidth": 0.5, "axes.axisbelow": True, "lines.linewidth": 1.2,
    "lines.markersize": 3.5, "figure.dpi": 200, "savefig.dpi": 200, "pdf.fonttype": 42,
    "mathtext.fontset": "dejavusans",
}


@dataclass(frozen=True)
class Series:
    """How one kind of series is drawn, and what the legend calls it."""

    label: str
    colour: str
    dashes: str
    marker: str

    def line(self, **more: object) -> dict[str, object]:
        """Keyword arguments for ``Axes.plot``."""
        return {"color": self.colour, "linestyle": self.dashes, "marker": self.marker, **more}


SERIES = {
    "bihm p": Series("BiHM, $\\log\\,p(x)$", "#0b3c6f", "-", "o"),
    "bihm p*": Series("BiHM, $\\log\\,p^{*}(x)$", "#d1660a", "--", "s"),
    "rws": Series("RWS", "#2f8f5b", "-.", "^"),
    "vae": Series("VAE", "#b05c94", ":", "D"),
    "iwae": Series("IWAE", "#8a8a2a", (0, (5, 1, 1, 1, 1, 1)), "v"),
    "log z2": Series("$2\\,\\log\\,Z$", "#555555", "-", "d"),
}
"""The series of the paper; colours differ in lightness too."""

PAPER_LINE = {"color": "0.35", "linewidth": 0.8, "linestyle": (0, (1, 1.5)), "zorder": 1}


@dataclass
class Drawing:
    """A figure (None where there is nothing to draw), its numbers, and what was left out."""

    figure: Figure | None
    numbers: dict[str, pd.DataFrame] = field(default_factory=dict)
    """By suffix of the CSV's name: ``""`` for the main one."""
    left_out: list[str] = field(default_factory=list)
    source: dict[str, object] = field(default_factory=dict)
    """What the pictures were drawn from: the run, its model's fingerprint, the settings."""


@dataclass(frozen=True)
class Places:
    """Where a figure may look: the data sets, and an earlier drawing's files (``out/NAME...``)."""

    data: str = "data"
    out: Path | None = None


@contextmanager
def look() -> Iterator[None]:
    """Apply the settings while figures are made and saved."""
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **SETTINGS, "backend": "agg"}):
        yield


def new_figure(height: float, width: float = PAGE_WIDTH) -> Figure:
    """Make a figure of ``width`` by ``height`` inches whose parts are laid out not to overlap."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panel_title(axes: Axes, letter: str, text: str) -> None:
    """Put a bold letter and a short title above a panel, at its left."""
    axes.set_title(rf"$\bf{{{letter}}}$  {text}" if letter else text, loc="left")


def image_grid(images: np.ndarray, shape: tuple[int, int], columns: int,
               gap: int = 2) -> np.ndarray:
    """Arrange ``images`` (n, pixels), values 0 to 1, as one picture with white gaps.

    Ink is dark on white, which prints well and shows grey as grey.
    """
    images = np.asarray(images, dtype=float)
    height, width = shape
    rows = -(-len(images) // columns)
    picture = np.ones((rows * (height + gap) - gap, columns * (width + gap) - gap))
    for index, image in enumerate(images):
        top = (index // columns) * (height + gap)
        left = (index % columns) * (width + gap)
        picture[top:top + height, left:left + width] = 1 - image.reshape(shape)
    return picture

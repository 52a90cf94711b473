"""Sizes, fonts and colours that all figures share, and the result of a plotting function.

Each series has a colour, a line style and a marker of its own, so that it can be recognised in
every figure, and without colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bihm_repro.files import write_json, write_text, written_atomically

__all__ = [
    "COLUMN_WIDTH",
    "PAGE_WIDTH",
    "PAPER_LINE",
    "Plot",
    "Series",
    "image_grid",
    "new_figure",
    "panel_title",
    "save_plot",
    "series_of",
    "source_path",
    "style_context",
]

COLUMN_WIDTH = 3.25
PAGE_WIDTH = 6.75
"""Inches: one column of a page, and both with the gap between them."""

SETTINGS = {
    "font.family": "DejaVu Sans", "font.size": 7.5, "axes.labelsize": 7.5, "axes.titlesize": 8,
    "figure.titlesize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7,
    "legend.frameon": False, "axes.linewidth": 0.6, "xtick.major.width": 0.6,
    "ytick.major.width": 0.6, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "0.9", "grid.linewidth": 0.5, "axes.axisbelow": True,
    "lines.linewidth": 1.2, "lines.markersize": 3.5, "figure.dpi": 200, "savefig.dpi": 200,
    "pdf.fonttype": 42, "mathtext.fontset": "dejavusans",
}  # fmt: skip


@dataclass(frozen=True)
class Series:
    """How one series is plotted, and its label in the legend."""

    label: str
    colour: str
    dashes: object
    marker: str

    def line(self, **more: object) -> dict[str, object]:
        """Return keyword arguments for ``Axes.plot``."""
        return {"color": self.colour, "linestyle": self.dashes, "marker": self.marker, **more}


SERIES = {
    "BiHM": Series("BiHM, $\\log\\,p(x)$", "#0b3c6f", "-", "o"),
    "BiHM p*": Series("BiHM, $\\log\\,p^{*}(x)$", "#d1660a", "--", "s"),
    "RWS": Series("RWS", "#2f8f5b", "-.", "^"),
    "VAE": Series("VAE", "#b05c94", ":", "D"),
    "IWAE": Series("IWAE", "#8a8a2a", (0, (5, 1, 1, 1, 1, 1)), "v"),
    "log z2": Series("$2\\,\\log\\,Z$", "#555555", "-", "d"),
}
"""The series of the paper; colours differ in lightness too."""

FURTHER = (
    ("#3a86c8", (0, (3, 1)), "P"),
    ("#c23b3b", (0, (1, 1)), "X"),
    ("#7a5bb5", (0, (6, 2)), "<"),
    ("#1a9a9a", (0, (4, 1, 1, 1)), ">"),
    ("#8c6d46", (0, (2, 2)), "h"),
)

PAPER_LINE = {"color": "0.35", "linewidth": 0.8, "linestyle": (0, (1, 1.5)), "zorder": 1}


def series_of(name: str, position: int = 0) -> Series:
    """Return the look of a series; a method that the paper does not have takes a free one."""
    return SERIES.get(name) or Series(name, *FURTHER[position % len(FURTHER)])


@dataclass
class Plot:
    """A figure (None where there is nothing to show), its numbers, and what is missing."""

    figure: Figure | None
    numbers: dict[str, pd.DataFrame] = field(default_factory=dict)
    """By suffix of the CSV's name: ``""`` for the main one."""
    missing: list[str] = field(default_factory=list)
    source: dict[str, object] = field(default_factory=dict)
    """What images were made from: the run, its model's fingerprint, the settings."""


@contextmanager
def style_context() -> Iterator[None]:
    """Apply the settings while figures are made and saved."""
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **SETTINGS, "backend": "agg"}):
        yield


def new_figure(height: float, width: float = PAGE_WIDTH) -> Figure:
    """Make a figure of ``width`` by ``height`` inches whose panels do not overlap."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panel_title(axes: Axes, letter: str, text: str) -> None:
    """Put a bold letter and a short title above a panel, at its left."""
    axes.set_title(rf"$\bf{{{letter}}}$  {text}" if letter else text, loc="left")


def image_grid(
    images: np.ndarray, shape: tuple[int, int], columns: int, gap: int = 2
) -> np.ndarray:
    """Arrange ``images`` (n, pixels), values 0 to 1, as one picture with white gaps.

    A pixel of 1 is black: dark on light, as ink on paper.
    """
    images = np.asarray(images, dtype=float)
    height, width = shape
    rows = -(-len(images) // columns)
    picture = np.ones((rows * (height + gap) - gap, columns * (width + gap) - gap))
    for index, image in enumerate(images):
        top = (index // columns) * (height + gap)
        left = (index % columns) * (width + gap)
        picture[top : top + height, left : left + width] = 1 - image.reshape(shape)
    return picture


def source_path(stem: Path) -> Path:
    """Return the file that records what a figure's images were made from."""
    return stem.with_name(f"{stem.name}-source.json")


def save_plot(plot: Plot, stem: Path, formats: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Save a plot under ``stem`` in each format, and its numbers as CSV; return the paths."""
    paths: list[Path] = []
    if plot.figure is None:
        return paths
    for suffix in formats:
        # Without dates and versions the same numbers give the same file.
        bare = {"CreationDate": None, "Producer": None, "Creator": None}
        paths.append(stem.with_name(f"{stem.name}.{suffix}"))
        with written_atomically(paths[-1]) as temporary:
            metadata = bare if suffix == "pdf" else {"Software": None}
            plot.figure.savefig(temporary, format=suffix, metadata=metadata)
    for part, numbers in plot.numbers.items():
        paths.append(stem.with_name(f"{stem.name}{part}.csv"))
        write_text(paths[-1], numbers.to_csv(index=False, lineterminator="\n"))
    if plot.source:
        paths.append(source_path(stem))
        write_json(paths[-1], plot.source)
    return paths

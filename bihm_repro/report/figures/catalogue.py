"""All figures by name: drawn, and saved as PNG, PDF and the CSV files of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bihm_repro.errors import InputError
from bihm_repro.files import write_json, write_text, written_atomically
from bihm_repro.report.figures import curves, digits, uci_dots
from bihm_repro.report.figures.sampled import source_path
from bihm_repro.report.figures.style import Drawing, Places, look
from bihm_repro.runs.reader import Run

__all__ = ["FIGURES", "TITLES", "chosen_figures", "make_figure", "save_drawing"]

FIGURES: dict[str, Callable[..., Drawing]] = {
    "samples": digits.draw_samples,
    "inpainting": digits.draw_inpainting,
    "partition-function": curves.draw_partition_function,
    "learning-curves": curves.draw_learning_curves,
    "faces": digits.draw_faces,
    "faces-inpainting": digits.draw_faces_inpainting,
    "letters": digits.draw_letters,
    "uci": uci_dots.draw_uci,
}
"""The paper's Figures 1 to 5 in order, then samples of letters and the dot plot of Table 1."""

TITLES = {
    "samples": "MNIST: samples from p and p*, and the estimates over the number of samples K",
    "inpainting": "MNIST: inpainting; original, masked, and independent fillings after 100 Gibbs "
                  "iterations",
    "partition-function": "MNIST: estimates of 2 log Z over the number of samples, and during "
                          "training",
    "learning-curves": "MNIST: learning curves over updates and over time",
    "faces": "Toronto Face Database: samples from p* after 10 Gibbs iterations",
    "faces-inpainting": "Toronto Face Database: inpainting, input beside output",
    "letters": "OCR letters: samples from p and p*",
    "uci": "UCI: our figures beside the paper's",
}


def chosen_figures(names: Iterable[str]) -> list[str]:
    """Check ``names``; none, or ``all``, stands for every figure."""
    names = list(names)
    unknown = [name for name in names if name not in (*FIGURES, "all")]
    if unknown:
        raise InputError(f"figures: {unknown[0]!r} is not known; give one or more of "
                         f"{', '.join(FIGURES)}, all")
    return list(FIGURES) if not names or "all" in names else list(dict.fromkeys(names))


def make_figure(name: str, runs: Sequence[Run], folder: str | Path,
                data: str = "data") -> tuple[list[Path], list[str]]:
    """Draw and save one figure; returns the paths written and what was left out."""
    with look():
        drawing = FIGURES[name](runs, Places(data, Path(folder)))
        paths = [] if drawing.figure is None else save_drawing(drawing, Path(folder) / name)
    return paths, drawing.left_out


def save_drawing(drawing: Drawing, stem: Path,
                 formats: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Save a drawing under ``stem`` with each format's suffix, and its numbers as CSV."""
    paths = []
    for suffix in formats:
        # Without dates and versions the same numbers give the same file.
        bare = {"CreationDate": None, "Producer": None, "Creator": None}
        with written_atomically(stem.with_name(f"{stem.name}.{suffix}")) as temporary:
            drawing.figure.savefig(temporary, metadata=bare if suffix == "pdf" else
                                   {"Software": None})
        paths.append(stem.with_name(f"{stem.name}.{suffix}"))
    for part, numbers in drawing.numbers.items():
        path = stem.with_name(f"{stem.name}{part}.csv")
        write_text(path, numbers.to_csv(index=False, lineterminator="\n"))
        paths.append(path)
    if drawing.source:
        path = source_path(stem)
        write_json(path, drawing.source)
        paths.append(path)
    return paths

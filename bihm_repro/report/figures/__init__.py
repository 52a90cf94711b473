"""All figures of the report by name: the paper's, from run folders alone, with their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bihm_repro.errors import InputError
from bihm_repro.report.figures import curves, samples, uci
from bihm_repro.report.figures.style import Plot, save_plot, style_context
from bihm_repro.runs.reader import Run

__all__ = ["CAPTIONS", "FIGURES", "chosen_figures", "make_figure"]

FIGURES: dict[str, Callable[..., Plot]] = {
    "samples": samples.plot_samples,
    "inpainting": samples.plot_inpainting,
    "partition-function": curves.plot_partition_function,
    "learning-curves": curves.plot_learning_curves,
    "faces": samples.plot_faces,
    "faces-inpainting": samples.plot_faces_inpainting,
    "letters": samples.plot_letters,
    "uci": uci.plot_uci,
}
"""The paper's Figures 1 to 5 in order, then samples of letters and a dot plot of Table 1.

Each takes the runs, the folder of the data sets and the folder of earlier figures."""

CAPTIONS = {
    "samples": "Handwritten digits that the model made up. A: samples from p, drawn from the top "
    "layer down. B: the same chains after ten Gibbs iterations towards p*. C: test log-likelihood "
    "as a function of the number K of samples behind each estimate. The paper's Figure 1.",
    "inpainting": "Completing digits of the test set. In each block, from left to right: the "
    "original, the digit with a part missing (grey), and three independent completions after "
    "100 Gibbs iterations. The paper's Figure 2.",
    "partition-function": "The normalization constant of p*. A and B: the estimate of 2 log Z as "
    "samples are added; the bands show the spread over repetitions. C: log p, log p* and 2 log Z "
    "on test rows during training. The paper's Figure 3.",
    "learning-curves": "Test log-likelihood on MNIST during training, over updates and over time. "
    "The paper's Figure 4.",
    "faces": "Faces sampled from p* after ten Gibbs iterations. The paper's Figure 5 A.",
    "faces-inpainting": "Faces completed: input on the left, output on the right of each pair. "
    "The paper's Figure 5 B.",
    "letters": "Letters sampled from the OCR letters model: from p, and after ten Gibbs "
    "iterations towards p*.",
    "uci": "Our numbers on the UCI sets beside the paper's. A: difference of the test -log p from "
    "the paper's BiHM, negative is better. B: -2 log Z. C: effective sample size.",
}


def chosen_figures(names: Iterable[str]) -> list[str]:
    """Check ``names``; none, or ``all``, means every figure."""
    names = list(names)
    unknown = [name for name in names if name not in (*FIGURES, "all")]
    if unknown:
        raise InputError(
            f"figures: {unknown[0]!r} is not known; give one or more of {', '.join(FIGURES)}, all"
        )
    return list(FIGURES) if not names or "all" in names else list(dict.fromkeys(names))


def make_figure(
    name: str, runs: Sequence[Run], folder: str | Path, data: str = "data"
) -> tuple[list[Path], list[str]]:
    """Plot and save one figure; return the paths written and a line for all that is missing."""
    with style_context():
        plot = FIGURES[name](runs, data, Path(folder))
        paths = [] if plot.figure is None else save_plot(plot, Path(folder) / name)
    return paths, plot.missing

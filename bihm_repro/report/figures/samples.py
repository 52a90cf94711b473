"""The paper's Figures 1, 2 and 5: samples from p and p*, sensitivity to K, inpainting, faces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bihm_repro.errors import InputError
from bihm_repro.report import paper
from bihm_repro.report.figures import images
from bihm_repro.report.figures.images import Images
from bihm_repro.report.figures.style import (
    COLUMN_WIDTH,
    PAGE_WIDTH,
    Plot,
    image_grid,
    new_figure,
    panel_title,
    series_of,
)
from bihm_repro.report.methods import method_of
from bihm_repro.report.tables.mnist import main_mnist_runs
from bihm_repro.runs.reader import Run, main_run

__all__ = [
    "model_run",
    "plot_faces",
    "plot_faces_inpainting",
    "plot_inpainting",
    "plot_letters",
    "plot_samples",
    "sensitivity",
]

GIBBS_SAMPLES = 10
GIBBS_INPAINTING = 100
COMPLETIONS = 3
FACES = ("tfd", "fer2013", "faces")


def model_run(runs: Sequence[Run], *datasets: str) -> Run | None:
    """Return the BiHM run with a model that represents the first of ``datasets`` that has one."""
    stored = [run for run in runs if run.model_path.exists() and method_of(run) == "BiHM"]
    found = (main_run(stored, name, "bihm", paper.MNIST_LAYERS["BiHM"]) for name in datasets)
    return next((run for run in found if run is not None), None)


def _show(axes: Axes, picture: np.ndarray) -> None:
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()


def _samples(run: Run, n: int, folder: Path | None, name: str) -> tuple[Images, dict[str, object]]:
    """Samples of p (``-a``) and after Gibbs iterations (``-b``), and what they come from."""
    source = images.source_of(run, images=n, gibbs_steps=GIBBS_SAMPLES)

    def make() -> Images:
        before, after = images.sample_means(run, n, GIBBS_SAMPLES)
        return {"-a": images.grey_levels(before), "-b": images.grey_levels(after)}

    return images.cached_images(folder and folder / name, source, ("-a", "-b"), make), source


def _frames(pictures: Images) -> dict[str, pd.DataFrame]:
    return {suffix: images.pixel_frame(rows) for suffix, rows in pictures.items()}


def _show_a_and_b(
    panels: Sequence[Axes], pictures: Images, shape: tuple[int, int], columns: int, gap: int = 2
) -> None:
    for axes, letter, text in (
        (panels[0], "A", "samples from $p(x)$"),
        (panels[1], "B", f"{GIBBS_SAMPLES} Gibbs iterations, $p^{{*}}(x)$"),
    ):
        _show(axes, image_grid(pictures[f"-{letter.lower()}"] / 255, shape, columns, gap))
        panel_title(axes, letter, text)


def plot_samples(
    runs: Sequence[Run], data: str = "data", folder: Path | None = None, side: int = 8
) -> Plot:
    """Figure 1: A samples of p, B the same after 10 Gibbs iterations, C estimates over K."""
    run = model_run(runs, "binarized_mnist")
    numbers, missing = sensitivity(runs)
    if run is None and numbers.empty:
        return Plot(None, missing=["no BiHM run on binarized_mnist"])
    figure = new_figure(2.35)
    plot = Plot(figure, {"": numbers}, missing)
    left, right = figure.subfigures(1, 2, width_ratios=(2, 1.12))
    panels = left.subplots(1, 2)
    if run is None:
        plot.missing.append("A and B: no model of a BiHM run on binarized_mnist")
        for axes in panels:
            axes.set_axis_off()
    else:
        pictures, plot.source = _samples(run, side * side, folder, "samples")
        plot.numbers.update(_frames(pictures))
        _show_a_and_b(panels, pictures, images.image_shape(run), side)
    _plot_sensitivity(right.subplots(), numbers)
    return plot


def sensitivity(runs: Sequence[Run]) -> tuple[pd.DataFrame, list[str]]:
    """Return the test log-likelihood over K: series, samples, log_likelihood, error, run."""
    chosen = {method_of(run): run for run in main_mnist_runs(runs) if run.dataset != "mnist"}
    missing = [
        f"C: no evaluated {method} run on binarized_mnist"
        for method in ("BiHM", "RWS", "VAE", "IWAE")
        if method not in chosen
    ]
    rows = [
        (method + suffix, count, estimate.value, estimate.standard_error, run.name)
        for method, run in chosen.items()
        for quantity, suffix in (("log_p", ""), ("log_p_star", " p*"))
        for count in run.all_sample_counts
        if (estimate := run.estimate(quantity, count)) is not None
    ]
    columns = ["series", "samples", "log_likelihood", "standard_error", "run"]
    return pd.DataFrame(rows, columns=columns), missing


def _plot_sensitivity(axes: Axes, numbers: pd.DataFrame) -> None:
    for position, (name, part) in enumerate(numbers.groupby("series", sort=False)):
        series = series_of(name, position)
        axes.errorbar(
            part["samples"],
            part["log_likelihood"],
            yerr=part["standard_error"],
            label=series.label,
            capsize=1.5,
            **series.line(),
        )
    axes.set_xscale("log")
    axes.set_xlabel("number of samples $K$")
    axes.set_ylabel("test log-likelihood (nats)")
    panel_title(axes, "C", "sensitivity to $K$")
    if not numbers.empty:  # below the axes, where no curve can run through it
        handles, labels = axes.get_legend_handles_labels()
        axes.figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=2,
            columnspacing=1.0,
            handlelength=2.2,
            handletextpad=0.5,
        )


def plot_inpainting(
    runs: Sequence[Run],
    data: str = "data",
    folder: Path | None = None,
    blocks: int = 4,
    rows: int = 6,
) -> Plot:
    """Figure 2: original, masked, and three completions after 100 Gibbs iterations."""
    run = model_run(runs, "binarized_mnist")
    if run is None:
        return Plot(None, missing=["no model of a BiHM run on binarized_mnist"])
    try:
        pictures, source = _inpainting(run, blocks * rows, COMPLETIONS, data, folder, "inpainting")
    except InputError as error:
        return Plot(None, missing=[str(error)])
    height, width = images.image_shape(run)
    columns = 2 + COMPLETIONS
    figure = new_figure(PAGE_WIDTH / blocks * rows * height / (width * columns) + 0.25)
    panels = figure.subplots(1, blocks, squeeze=False)[0]
    for index, axes in enumerate(panels):
        part = _strips(pictures, COMPLETIONS)[index * rows : (index + 1) * rows]
        _show(axes, image_grid(part.reshape(-1, part.shape[-1]), (height, width), columns))
    # A title of the figure, not of a panel: the panels then stay equally wide.
    figure.suptitle(
        f"each block: original, masked, {COMPLETIONS} completions after {GIBBS_INPAINTING} Gibbs "
        "iterations",
        x=0.01,
        ha="left",
    )
    return Plot(figure, _frames(pictures), source=source)


def _inpainting(
    run: Run, n: int, repeats: int, data: str, folder: Path | None, name: str
) -> tuple[Images, dict[str, object]]:
    """Completions of ``n`` test images; reads the data set only where they are not stored."""
    source = images.source_of(run, images=n, repeats=repeats, gibbs_steps=GIBBS_INPAINTING)

    def make() -> Images:
        chosen = images.random_test_images(run, n, data)
        return images.inpaint(run, chosen, repeats, GIBBS_INPAINTING)

    suffixes = ("", "-original", "-known")
    return images.cached_images(folder and folder / name, source, suffixes, make), source


def _strips(pictures: Images, repeats: int) -> np.ndarray:
    """For each image the original, the masked one (hidden pixels grey) and the completions."""
    original, known = pictures["-original"] / 255, pictures["-known"].astype(bool)
    completed = pictures[""].reshape(len(original), repeats, -1) / 255
    masked = np.where(known, original, 0.35)
    return np.concatenate([original[:, None], masked[:, None], completed], axis=1)


def plot_letters(runs: Sequence[Run], data: str = "data", folder: Path | None = None) -> Plot:
    """Samples of the letters model, shown as those of the digits."""
    run = model_run(runs, "ocr_letters")
    if run is None:
        return Plot(None, missing=["no model of a BiHM run on ocr_letters"])
    pictures, source = _samples(run, 5 * 14, folder, "letters")
    figure = new_figure(1.9)
    _show_a_and_b(figure.subplots(1, 2), pictures, images.image_shape(run), 14, gap=5)
    return Plot(figure, _frames(pictures), source=source)


def plot_faces(runs: Sequence[Run], data: str = "data", folder: Path | None = None) -> Plot:
    """Figure 5 A: twelve samples of p* after 10 Gibbs iterations."""
    run = model_run(runs, *FACES)
    if run is None:
        return Plot(None, missing=[f"no model of a BiHM run on faces ({' or '.join(FACES)})"])
    pictures, source = _samples(run, 12, folder, "faces")
    figure = new_figure(2.6, COLUMN_WIDTH)
    axes = figure.subplots()
    # Faces are bright where their pixels are one.
    _show(axes, 1 - image_grid(pictures["-b"] / 255, images.image_shape(run), 4, gap=0))
    panel_title(axes, "A", "samples from $p^{*}(x)$")
    return Plot(figure, _frames(pictures), source=source)


def plot_faces_inpainting(
    runs: Sequence[Run], data: str = "data", folder: Path | None = None
) -> Plot:
    """Figure 5 B: input and output of inpainting, three pairs in each row."""
    run = model_run(runs, *FACES)
    if run is None:
        return Plot(None, missing=[f"no model of a BiHM run on faces ({' or '.join(FACES)})"])
    try:
        pictures, source = _inpainting(run, 9, 1, data, folder, "faces-inpainting")
    except InputError as error:
        return Plot(None, missing=[str(error)])
    figure = new_figure(1.95, COLUMN_WIDTH)
    axes = figure.subplots()
    pairs = _strips(pictures, 1)[:, 1:]
    shape = images.image_shape(run)
    _show(axes, 1 - image_grid(pairs.reshape(-1, pairs.shape[-1]), shape, 6, gap=0))
    panel_title(axes, "B", "inpainting: input, output")
    return Plot(figure, _frames(pictures), source=source)

"""The paper's Figures 1, 2 and 5: samples from p and p*, sensitivity to K, inpainting, faces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bihm_repro.errors import InputError
from bihm_repro.report.figures import sampled
from bihm_repro.report.figures.sampled import Pictures
from bihm_repro.report.figures.style import (
    COLUMN_WIDTH,
    PAGE_WIDTH,
    SERIES,
    Drawing,
    Places,
    image_grid,
    new_figure,
    panel_title,
)
from bihm_repro.report.mnist_tables import PAPER_LAYERS, mnist_run
from bihm_repro.runs.reader import Run, main_run

__all__ = ["draw_faces", "draw_faces_inpainting", "draw_inpainting", "draw_letters",
           "draw_samples", "sensitivity"]

GIBBS_SAMPLES = 10
GIBBS_INPAINTING = 100
FILLINGS = 3
PLACES = Places()


def _model_run(runs: Sequence[Run], dataset: str) -> Run | None:
    with_model = [run for run in runs if run.model_path.exists()]
    return main_run(with_model, dataset, "bihm", PAPER_LAYERS["bihm"])


def _show(axes: Axes, picture: np.ndarray) -> None:
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()


def _stem(places: Places, name: str) -> Path | None:
    return None if places.out is None else places.out / name


def _samples(run: Run, n: int, places: Places, name: str) -> tuple[Pictures, dict[str, object]]:
    """Samples of p (``-a``) and after Gibbs iterations (``-b``), and what they come from."""
    source = sampled.source_of(run, pictures=n, gibbs_steps=GIBBS_SAMPLES)

    def make() -> Pictures:
        before, after = sampled.sample_means(run, n, GIBBS_SAMPLES)
        return {"-a": sampled.grey_levels(before), "-b": sampled.grey_levels(after)}

    return sampled.kept_or_made(_stem(places, name), source, ("-a", "-b"), make), source


def _frames(pictures: Pictures) -> dict[str, pd.DataFrame]:
    return {suffix: sampled.pixel_frame(rows) for suffix, rows in pictures.items()}


def _draw_a_and_b(panels: Sequence[Axes], pictures: Pictures, shape: tuple[int, int],
                  columns: int) -> None:
    for axes, letter, text in ((panels[0], "A", "samples from $p(x)$"),
                               (panels[1], "B", "10 Gibbs iterations, $p^{*}(x)$")):
        _show(axes, image_grid(pictures[f"-{letter.lower()}"] / 255, shape, columns))
        panel_title(axes, letter, text)


def draw_samples(runs: Sequence[Run], places: Places = PLACES, side: int = 8) -> Drawing:
    """Figure 1: A samples of p, B the same after 10 Gibbs iterations, C estimates over K."""
    run = _model_run(runs, "binarized_mnist")
    numbers, left_out = sensitivity(runs)
    if run is None and numbers.empty:
        return Drawing(None, left_out=["no BiHM run on binarized_mnist"])
    figure = new_figure(2.3)
    panels = figure.subplots(1, 3, width_ratios=(1, 1, 1.05))
    drawing = Drawing(figure, {"": numbers}, left_out)
    if run is None:
        drawing.left_out.append("A and B: no model of a BiHM run on binarized_mnist")
        for axes in panels[:2]:
            axes.set_axis_off()
    else:
        pictures, drawing.source = _samples(run, side * side, places, "samples")
        drawing.numbers.update(_frames(pictures))
        _draw_a_and_b(panels, pictures, sampled.image_shape(run), side)
    _draw_sensitivity(panels[2], numbers)
    return drawing


def sensitivity(runs: Sequence[Run]) -> tuple[pd.DataFrame, list[str]]:
    """Test log-likelihood over K: series, samples, log_likelihood, standard_error, run."""
    rows, left_out = [], []
    for kind, quantity, series in (("bihm", "log_p", "bihm p"), ("bihm", "log_p_star", "bihm p*"),
                                   ("rws", "log_p", "rws"), ("vae", "log_p", "vae"),
                                   ("iwae", "log_p", "iwae")):
        run = mnist_run(runs, kind)
        if run is None:
            line = f"C: no evaluated {kind.upper()} run on binarized_mnist"
            left_out += [line] if line not in left_out else []
            continue
        for count in run.sample_counts:
            estimate = run.estimate(quantity, count)
            if estimate is not None:
                rows.append((series, count, estimate.value, estimate.standard_error, run.name))
    columns = ["series", "samples", "log_likelihood", "standard_error", "run"]
    return pd.DataFrame(rows, columns=columns), left_out


def _draw_sensitivity(axes: Axes, numbers: pd.DataFrame) -> None:
    for name, part in numbers.groupby("series", sort=False):
        axes.errorbar(part["samples"], part["log_likelihood"], yerr=part["standard_error"],
                      label=SERIES[name].label, capsize=1.5, **SERIES[name].line())
    axes.set_xscale("log")
    axes.set_xlabel("number of samples $K$")
    axes.set_ylabel("test log-likelihood (nats)")
    panel_title(axes, "C", "sensitivity to $K$")
    if not numbers.empty:
        axes.legend(loc="best", handlelength=2.6)


def draw_inpainting(runs: Sequence[Run], places: Places = PLACES, blocks: int = 4,
                    rows: int = 6) -> Drawing:
    """Figure 2: original, masked, and three fillings after 100 Gibbs iterations."""
    run = _model_run(runs, "binarized_mnist")
    if run is None:
        return Drawing(None, left_out=["no model of a BiHM run on binarized_mnist"])
    try:
        pictures, source = _inpaintings(run, blocks * rows, FILLINGS, places, "inpainting")
    except InputError as error:
        return Drawing(None, left_out=[str(error)])
    height, width = sampled.image_shape(run)
    figure = new_figure(PAGE_WIDTH / blocks * rows * height / (width * (2 + FILLINGS)) + 0.25)
    panels = figure.subplots(1, blocks, squeeze=False)[0]
    for index, axes in enumerate(panels):
        part = _strips(pictures, FILLINGS)[index * rows:(index + 1) * rows]
        _show(axes, image_grid(part.reshape(-1, part.shape[-1]), (height, width), 2 + FILLINGS))
    # A title of the figure, not of a panel: the panels then stay equally wide.
    figure.suptitle(f"each block: original, masked, {FILLINGS} fillings after "
                    f"{GIBBS_INPAINTING} Gibbs iterations", x=0.0, ha="left")
    return Drawing(figure, _frames(pictures), source=source)


def _inpaintings(run: Run, n: int, fillings: int, places: Places,
                 name: str) -> tuple[Pictures, dict[str, object]]:
    """Fillings of ``n`` test images and what they come from; needs the data set only if new."""
    source = sampled.source_of(run, pictures=n, fillings=fillings, gibbs_steps=GIBBS_INPAINTING)
    pictures = sampled.kept_or_made(
        _stem(places, name), source, ("", "-original", "-known"), lambda: sampled.inpaint(
            run, sampled.random_test_images(run, n, places.data), fillings, GIBBS_INPAINTING))
    return pictures, source


def _strips(pictures: Pictures, fillings: int) -> np.ndarray:
    """For each image the original, the masked one (missing pixels grey) and the fillings."""
    original, known = pictures["-original"] / 255, pictures["-known"].astype(bool)
    filled = pictures[""].reshape(len(original), fillings, -1) / 255
    masked = np.where(known, original, 0.35)
    return np.concatenate([original[:, None], masked[:, None], filled], axis=1)


def draw_letters(runs: Sequence[Run], places: Places = PLACES) -> Drawing:
    """Samples of the letters model, drawn as those of the digits."""
    run = _model_run(runs, "ocr_letters")
    if run is None:
        return Drawing(None, left_out=["no model of a BiHM run on ocr_letters"])
    pictures, source = _samples(run, 6 * 16, places, "letters")
    figure = new_figure(2.55)
    _draw_a_and_b(figure.subplots(1, 2), pictures, sampled.image_shape(run), 16)
    return Drawing(figure, _frames(pictures), source=source)


def draw_faces(runs: Sequence[Run], places: Places = PLACES) -> Drawing:
    """Figure 5: A twelve samples of p* after 10 Gibbs iterations."""
    run = _model_run(runs, "tfd")
    if run is None:
        return Drawing(None, left_out=["no model of a BiHM run on tfd"])
    pictures, source = _samples(run, 12, places, "faces")
    figure = new_figure(2.6, COLUMN_WIDTH)
    axes = figure.subplots()
    # Faces are bright where their pixels are one.
    _show(axes, 1 - image_grid(pictures["-b"] / 255, sampled.image_shape(run), 4, gap=0))
    panel_title(axes, "A", "samples from $p^{*}(x)$")
    return Drawing(figure, _frames(pictures), source=source)


def draw_faces_inpainting(runs: Sequence[Run], places: Places = PLACES) -> Drawing:
    """Figure 5: B input and output of inpainting, three pairs a row."""
    run = _model_run(runs, "tfd")
    if run is None:
        return Drawing(None, left_out=["no model of a BiHM run on tfd"])
    try:
        pictures, source = _inpaintings(run, 9, 1, places, "faces-inpainting")
    except InputError as error:
        return Drawing(None, left_out=[str(error)])
    figure = new_figure(1.95, COLUMN_WIDTH)
    axes = figure.subplots()
    pairs = _strips(pictures, 1)[:, 1:]
    shape = sampled.image_shape(run)
    _show(axes, 1 - image_grid(pairs.reshape(-1, pairs.shape[-1]), shape, 6, gap=0))
    panel_title(axes, "B", "inpainting: input, output")
    return Drawing(figure, _frames(pictures), source=source)

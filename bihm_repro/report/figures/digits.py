"""The paper's Figures 1, 2 and 5: samples from p and p*, sensitivity to K, inpainting, faces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bihm_repro.errors import InputError
from bihm_repro.report.figures import sampled
from bihm_repro.report.figures.style import (
    PAGE_WIDTH,
    SERIES,
    Drawing,
    image_grid,
    new_figure,
    panel_title,
)
from bihm_repro.report.mnist_tables import PAPER_LAYERS, mnist_run
from bihm_repro.report.runs import Run, main_run

__all__ = ["draw_faces", "draw_inpainting", "draw_letters", "draw_samples"]

GIBBS_SAMPLES = 10
GIBBS_INPAINTING = 100
FILLINGS = 3


def _model_run(runs: Sequence[Run], dataset: str) -> Run | None:
    with_model = [run for run in runs if run.model_path.exists()]
    return main_run(with_model, dataset, "bihm", PAPER_LAYERS["bihm"])


def _show(axes: Axes, picture: np.ndarray) -> None:
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()


def _pixels(images: np.ndarray) -> pd.DataFrame:
    """Means as whole percent, a row an image: what the eye can tell, in a small file."""
    return pd.DataFrame(np.rint(100 * np.asarray(images)).astype(int),
                        columns=[f"pixel_{index}" for index in range(images.shape[1])])


def draw_samples(runs: Sequence[Run], data: str = "data", side: int = 8) -> Drawing:
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
    else:
        before, after = sampled.sample_means(run, side * side, GIBBS_SAMPLES)
        drawing.numbers |= {"-a": _pixels(before), "-b": _pixels(after)}
        for axes, letter, text, images in (
                (panels[0], "A", "samples from $p(x)$", before),
                (panels[1], "B", "10 Gibbs iterations, $p^{*}(x)$", after)):
            _show(axes, image_grid(images, sampled.image_shape(run), side))
            panel_title(axes, letter, text)
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
        axes.legend(loc="lower right", handlelength=2.6)


def draw_inpainting(runs: Sequence[Run], data: str = "data", blocks: int = 4,
                    rows: int = 6) -> Drawing:
    """Figure 2: original, masked, and three fillings after 100 Gibbs iterations."""
    run = _model_run(runs, "binarized_mnist")
    if run is None:
        return Drawing(None, left_out=["no model of a BiHM run on binarized_mnist"])
    return _inpainting(run, data, blocks, rows, FILLINGS, GIBBS_INPAINTING)


def _inpainting(run: Run, data: str, blocks: int, rows: int, fillings: int,
                steps: int) -> Drawing:
    shape = sampled.image_shape(run)
    try:
        images = sampled.random_test_images(run, blocks * rows, data)
    except InputError as error:
        return Drawing(None, left_out=[str(error)])
    result = sampled.inpaint_digits(run, images, shape, fillings, steps)
    figure = new_figure(PAGE_WIDTH / blocks * rows * shape[0] / (shape[1] * (2 + fillings)) + 0.25)
    grids = [_block(result, slice(block * rows, (block + 1) * rows), shape)
             for block in range(blocks)]
    panels = figure.subplots(1, blocks, squeeze=False)[0]
    for axes, picture in zip(panels, grids):
        _show(axes, picture)
    panel_title(panels[0], "", "each block: original, masked, "
                f"{fillings} fillings after {steps} Gibbs iterations")
    filled = result.filled.reshape(-1, result.filled.shape[-1])
    numbers = {"": _pixels(filled), "-original": _pixels(result.original),
               "-known": pd.DataFrame(result.known.astype(int)).add_prefix("pixel_")}
    return Drawing(figure, numbers)


def _block(result: sampled.Inpainted, part: slice, shape: tuple[int, int]) -> np.ndarray:
    """One column of rows: the original, the masked one (missing pixels grey), the fillings."""
    original, known, filled = result.original[part], result.known[part], result.filled[part]
    masked = np.where(known, original, 0.35)
    strip = np.concatenate([original[:, None], masked[:, None], filled], axis=1)
    return image_grid(strip.reshape(-1, strip.shape[-1]), shape, strip.shape[1])


def draw_letters(runs: Sequence[Run], data: str = "data") -> Drawing:
    """Samples of the letters model, drawn as those of the digits."""
    run = _model_run(runs, "ocr_letters")
    if run is None:
        return Drawing(None, left_out=["no model of a BiHM run on ocr_letters"])
    before, after = sampled.sample_means(run, 6 * 16, GIBBS_SAMPLES)
    figure = new_figure(2.9)
    panels = figure.subplots(1, 2)
    for axes, letter, text, images in ((panels[0], "A", "samples from $p(x)$", before),
                                       (panels[1], "B", "10 Gibbs iterations, $p^{*}(x)$", after)):
        _show(axes, image_grid(images, sampled.image_shape(run), 16))
        panel_title(axes, letter, text)
    return Drawing(figure, {"-a": _pixels(before), "-b": _pixels(after)})


def draw_faces(runs: Sequence[Run], data: str = "data") -> Drawing:
    """Figure 5: A twelve samples of p* after 10 Gibbs iterations, B inpainting, on faces."""
    run = _model_run(runs, "tfd")
    if run is None:
        return Drawing(None, left_out=["no model of a BiHM run on tfd"])
    shape = sampled.image_shape(run)
    _, after = sampled.sample_means(run, 12, GIBBS_SAMPLES)
    figure = new_figure(2.4)
    panels = figure.subplots(1, 2, width_ratios=(4, 3))
    _show(panels[0], 1 - image_grid(after, shape, 4))
    panel_title(panels[0], "A", "samples from $p^{*}(x)$")
    drawing = Drawing(figure, {"-a": _pixels(after)})
    try:
        images = sampled.random_test_images(run, 6, data)
    except InputError as error:
        drawing.left_out.append(f"B: {error}")
        panels[1].set_axis_off()
        return drawing
    result = sampled.inpaint_digits(run, images, shape, 1, GIBBS_INPAINTING)
    pairs = np.stack([np.where(result.known, images, 0), result.filled[:, 0]], axis=1)
    _show(panels[1], 1 - image_grid(pairs.reshape(12, -1), shape, 4))
    panel_title(panels[1], "B", "inpainting: input, output")
    drawing.numbers["-b"] = _pixels(result.filled[:, 0])
    return drawing



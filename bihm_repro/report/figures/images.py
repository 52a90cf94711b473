"""Images that a run's parameters make: samples of p and of p*, and inpainting.

They need ``model.npz`` and numpy; inpainting also needs the data set for its test images. The
random numbers are seeded, so the same run gives the same image. Images are grey levels, 0 to 255
for means 0 to 1. A figure keeps them as CSV beside a record of the model they came from, and they
are read from there as long as the model is the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from bihm_repro.datasets.registry import DATASETS
from bihm_repro.errors import InputError
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.report.figures.style import source_path
from bihm_repro.runs.reader import Run
from bihm_repro.samplers.gibbs import GibbsSettings, gibbs_chain, start_chain
from bihm_repro.samplers.inpainting import MASKS, inpainting_chain, known_pixels

__all__ = [
    "Images",
    "cached_images",
    "grey_levels",
    "image_shape",
    "inpaint",
    "model_of",
    "pixel_frame",
    "random_test_images",
    "sample_means",
    "source_of",
]

SEED = 20160625
SETTINGS = GibbsSettings(proposals=50, keep_current=False)
"""The paper's sampler: fresh proposals only, so that chains move on."""
Images = dict[str, np.ndarray]
"""Grey levels (n, pixels), uint8, by the suffix of their CSV's name."""


def image_shape(run: Run) -> tuple[int, int]:
    """Return rows and columns of the data set's images."""
    entry = DATASETS.get(run.dataset)
    if entry is None or entry.image_shape is None:
        raise InputError(f"{run.path}: the rows of data set {run.dataset} are no images")
    return entry.image_shape


def grey_levels(means: np.ndarray) -> np.ndarray:
    """Round means in [0, 1], of any shape, to grey levels 0 to 255."""
    return np.rint(255 * np.asarray(means)).astype(np.uint8)


def pixel_frame(images: np.ndarray) -> pd.DataFrame:
    """Return one row per image, one column per pixel."""
    return pd.DataFrame(images).add_prefix("pixel_")


def source_of(run: Run, **settings: object) -> dict[str, object]:
    """Return what decides the images: the run, the content of its model, seed and ``settings``."""
    digest = hashlib.sha256(run.model_path.read_bytes()).hexdigest()
    return {"run": run.name, "model_sha256": digest, "seed": SEED, **settings}


def cached_images(
    stem: Path | None,
    source: dict[str, object],
    suffixes: tuple[str, ...],
    make: Callable[[], Images],
) -> Images:
    """Return the images saved under ``stem`` if they came from this ``source``, else make them."""
    try:
        if stem is None or json.loads(source_path(stem).read_text(encoding="utf-8")) != source:
            return make()
        frames = {part: pd.read_csv(stem.with_name(f"{stem.name}{part}.csv")) for part in suffixes}
        return {suffix: frame.to_numpy(dtype=np.uint8) for suffix, frame in frames.items()}
    except (OSError, ValueError):
        return make()


def model_of(run: Run):
    """Return the numpy form of a run's model."""
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.samplers.from_run import sampler_of

    return sampler_of(RunDirectory(run.path))


def sample_means(run: Run, n: int, gibbs_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of p(x|h_1) for ``n`` chains, at their start in p and after the steps.

    Both have shape (n, data_dim); the second comes from the first by Gibbs sampling of p*.
    """
    model, random = model_of(run), RandomStream(SEED, "samples")
    chain = start_chain(model, model.sample_p(n, random), random)
    before = model.expected_x(chain.layers)
    *_, last = [chain, *gibbs_chain(model, chain, gibbs_steps, random, SETTINGS)]
    return before, model.expected_x(last.layers)


def random_test_images(run: Run, n: int, folder: str = "data") -> np.ndarray:
    """Choose ``n`` random rows of the test split, (n, data_dim) of 0 and 1."""
    from bihm_repro.datasets.dataset import load_dataset

    rows = load_dataset(str(run.recipe["dataset"]), folder).splits["test"]
    chosen = RandomStream(SEED, "test images").choice(len(rows), n)
    return np.asarray(rows[chosen], dtype=np.float32)


def inpaint(run: Run, images: np.ndarray, repeats: int, gibbs_steps: int) -> Images:
    """Complete each of ``images`` (n, data_dim), of which a random part is hidden.

    Returns ``""`` the completions by independent chains (n * repeats, pixels), known pixels as
    they are and the others as means, ``"-original"`` the images and ``"-known"``, 1 where a pixel
    is known: a half or a block is hidden in each.
    """
    model, random = model_of(run), RandomStream(SEED, "inpainting")
    shape, masks = image_shape(run), random.integers(len(MASKS), len(images))
    known = np.concatenate([known_pixels(MASKS[mask], shape, 1, random) for mask in masks])
    start, kept = np.repeat(images, repeats, axis=0), np.repeat(known, repeats, axis=0)
    *_, last = inpainting_chain(model, start, kept, gibbs_steps, random, SETTINGS)
    means = np.where(kept, start, model.expected_x(last.layers))
    return {
        "": grey_levels(means),
        "-original": grey_levels(images),
        "-known": known.astype(np.uint8),
    }

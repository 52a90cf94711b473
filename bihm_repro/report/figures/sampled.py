"""Pictures that a run's parameters make: samples of p and of p*, and inpaintings.

They need ``model.npz`` and numpy; inpainting also needs the data set's file for its test images.
The draws are seeded, so the same run gives the same picture. Pictures are grey levels, 0 to 255
for means 0 to 1; a figure keeps them as CSV with a note of the model they come from, and they are
taken from there as long as the model is the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from bihm_repro.datasets.catalogue import CATALOGUE
from bihm_repro.runs.reader import Run

__all__ = ["Pictures", "grey_levels", "image_shape", "inpaint", "kept_or_made", "pixel_frame",
           "random_masks", "random_test_images", "sample_means", "source_of", "source_path"]

SEED = 20160625
Pictures = dict[str, np.ndarray]
"""Grey levels (n, pixels), uint8, by the suffix of their CSV's name."""


def image_shape(run: Run) -> tuple[int, int] | None:
    """Rows and columns of the data set's images; None where its rows are no images."""
    entry = CATALOGUE.get(run.dataset)
    return None if entry is None else entry.image_shape


def grey_levels(means: np.ndarray) -> np.ndarray:
    """Round means in [0, 1], of any shape, to grey levels 0 to 255."""
    return np.rint(255 * np.asarray(means)).astype(np.uint8)


def pixel_frame(pictures: np.ndarray) -> pd.DataFrame:
    """A row a picture, a column a pixel."""
    return pd.DataFrame(pictures).add_prefix("pixel_")


# -- keeping what was drawn ----------------------------------------------------------------------


def source_of(run: Run, **settings: object) -> dict[str, object]:
    """What decides the pictures: the run, the content of its model, the seed and ``settings``."""
    digest = hashlib.sha256(run.model_path.read_bytes()).hexdigest()
    return {"run": run.name, "model_sha256": digest, "seed": SEED, **settings}


def source_path(stem: Path) -> Path:
    """Where a figure notes what its pictures come from."""
    return stem.with_name(f"{stem.name}-source.json")


def kept_or_made(stem: Path | None, source: dict[str, object], suffixes: tuple[str, ...],
                 make: Callable[[], Pictures]) -> Pictures:
    """Return the pictures kept beside ``stem`` where they are of this ``source``, or make them."""
    kept = None if stem is None else _kept(stem, source, suffixes)
    return make() if kept is None else kept


def _kept(stem: Path, source: dict[str, object], suffixes: tuple[str, ...]) -> Pictures | None:
    try:
        if json.loads(source_path(stem).read_text(encoding="utf-8")) != source:
            return None
        frames = {suffix: pd.read_csv(stem.with_name(f"{stem.name}{suffix}.csv"))
                  for suffix in suffixes}
        return {suffix: frame.to_numpy(dtype=np.uint8) for suffix, frame in frames.items()}
    except (OSError, ValueError):
        return None


# -- drawing -------------------------------------------------------------------------------------


def _pair(run: Run):
    from bihm_repro.samplers.directed import DirectedPair

    with np.load(run.model_path, allow_pickle=False) as stored:
        return DirectedPair({name: stored[name] for name in stored.files if name != "meta"})


def sample_means(run: Run, n: int, gibbs_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of p(x|h_1) for ``n`` chains, at their start in p and after the steps.

    Both have shape (n, data_dim); the second comes from the first by Gibbs sampling of p*.
    """
    from bihm_repro.samplers.gibbs import gibbs_chain, start_chain

    pair, generator = _pair(run), np.random.default_rng(SEED)
    chain = start_chain(pair, pair.sample_p(n, generator), generator)
    before = pair.expected_x(chain.h1)
    for state in gibbs_chain(pair, chain, gibbs_steps, generator):
        chain = state
    return before, pair.expected_x(chain.h1)


def random_masks(n: int, shape: tuple[int, int], generator: np.random.Generator) -> np.ndarray:
    """Draw which pixels are known, (n, pixels) bool: a half or a block is missing from each."""
    from bihm_repro.samplers.inpainting import MASKS, known_pixels

    kinds = generator.integers(0, len(MASKS), n)
    return np.concatenate([known_pixels(MASKS[kind], shape, 1, generator) for kind in kinds])


def random_test_images(run: Run, n: int, folder: str = "data") -> np.ndarray:
    """Choose ``n`` random rows of the test split, (n, data_dim) of 0 and 1."""
    from bihm_repro.datasets.load import load_dataset

    rows = load_dataset(str(run.recipe["dataset"]), folder).splits["test"]
    chosen = np.random.default_rng(SEED).choice(len(rows), size=n, replace=False)
    return np.asarray(rows[chosen], dtype=np.float32)


def inpaint(run: Run, images: np.ndarray, fillings: int, gibbs_steps: int) -> Pictures:
    """Fill the missing part of each of ``images`` (n, data_dim) by independent Gibbs chains.

    Returns ``""`` the fillings (n * fillings, pixels), known pixels as they are and the others as
    means, ``"-original"`` the images and ``"-known"``, 1 where a pixel is known.
    """
    from bihm_repro.samplers.inpainting import inpainting_chain

    pair, generator = _pair(run), np.random.default_rng(SEED + 1)
    known = random_masks(len(images), image_shape(run), generator)
    start, kept = np.repeat(images, fillings, axis=0), np.repeat(known, fillings, axis=0)
    for chain in inpainting_chain(pair, start, kept, gibbs_steps, generator):
        last = chain
    means = np.where(kept, start, pair.expected_x(last.h1))
    return {"": grey_levels(means), "-original": grey_levels(images),
            "-known": known.astype(np.uint8)}

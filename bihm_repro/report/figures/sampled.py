"""Pictures that a run's parameters make: samples of p and of p*, and inpaintings.

They need ``model.npz`` and numpy; inpainting also needs the data set's file for its test images.
The draws are seeded, so the same run gives the same picture.
"""

from __future__ import annotations

import numpy as np

from bihm_repro.datasets.catalogue import CATALOGUE
from bihm_repro.report.runs import Run

__all__ = ["Inpainted", "image_shape", "inpaint_digits", "random_masks", "sample_means",
           "random_test_images"]

SEED = 20160625


def image_shape(run: Run) -> tuple[int, int] | None:
    """Rows and columns of the data set's images; None where its rows are no images."""
    entry = CATALOGUE.get(run.dataset)
    return None if entry is None else entry.image_shape


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


class Inpainted:
    """Original images (n, pixels), which pixels are known (n, pixels), and the fillings.

    ``filled`` has shape (n, fillings, pixels): known pixels as they are, the others as means.
    """

    def __init__(self, original: np.ndarray, known: np.ndarray, filled: np.ndarray) -> None:
        """Keep the three arrays."""
        self.original, self.known, self.filled = original, known, filled


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


def inpaint_digits(run: Run, images: np.ndarray, shape: tuple[int, int], fillings: int,
                   gibbs_steps: int) -> Inpainted:
    """Fill the missing part of each image by independent chains of Gibbs sampling.

    ``images`` has shape (n, data_dim).
    """
    from bihm_repro.samplers.inpainting import inpainting_chain

    pair, generator = _pair(run), np.random.default_rng(SEED + 1)
    known = random_masks(len(images), shape, generator)
    start, kept = np.repeat(images, fillings, axis=0), np.repeat(known, fillings, axis=0)
    for chain in inpainting_chain(pair, start, kept, gibbs_steps, generator):
        last = chain
    means = np.where(kept, start, pair.expected_x(last.h1))
    return Inpainted(images, known, means.reshape(len(images), fillings, -1))

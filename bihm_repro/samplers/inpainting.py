"""Inpainting (the paper's "Sampling and inpainting", section 3): p* given some values of x.

The chain starts from h ~ q(h|x~) of the corrupted input x~ and runs the Gibbs sampler of p*;
whenever x is drawn, the known elements of x~ stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers.gibbs import Chain, GibbsSettings, gibbs_chain, start_chain
from bihm_repro.samplers.helmholtz import HelmholtzSampler

__all__ = ["MASKS", "inpainting_chain", "known_pixels", "start_inpainting"]

MASKS = ("left", "right", "top", "bottom", "block")


def start_inpainting(
    model: HelmholtzSampler, x: np.ndarray, known: np.ndarray, random: RandomStream
) -> Chain:
    """Return chains at h ~ q(h|x~) with the unknown elements of x drawn from p(x|h_1).

    ``x`` (chains, data_dim) has values in [0, 1]; ``known``, bool of shape (data_dim,) or
    (chains, data_dim), marks those that stay. The others are 0 in x~ and never looked at.
    """
    x, known = _checked(model, x, known)
    layers = model.sample_q(np.where(known, x, np.float32(0)), random)
    layers[0] = model.p_given(0, layers[1]).sample(random, (), ~known, x)
    return start_chain(model, layers, random)


def inpainting_chain(
    model: HelmholtzSampler,
    x: np.ndarray,
    known: np.ndarray,
    steps: int,
    random: RandomStream,
    settings: GibbsSettings | None = None,
) -> Iterator[Chain]:
    """Yield the start and then the state after each of ``steps`` steps; see above for the rest."""
    x, known = _checked(model, x, known)
    chain = start_inpainting(model, x, known, random)
    yield chain
    yield from gibbs_chain(model, chain, steps, random, settings, known)


def known_pixels(mask: str, shape: tuple[int, int], n: int, random: RandomStream) -> np.ndarray:
    """Return which pixels of n pictures are known, bool of shape (n, rows * columns).

    ``left``, ``right``, ``top`` and ``bottom`` name the half that is hidden; ``block`` hides a
    rectangle of half the height and half the width, at a random place of each picture; anything
    else is a picture file whose dark half of the grey scale is hidden.

    >>> known_pixels("left", (1, 4), 1, RandomStream(0, "masks")).astype(int).tolist()
    [[0, 0, 1, 1]]
    """
    rows, columns = shape
    hidden = np.zeros((n, rows, columns), bool)
    if mask in ("left", "right"):
        half = slice(0, columns // 2) if mask == "left" else slice(columns - columns // 2, columns)
        hidden[:, :, half] = True
    elif mask in ("top", "bottom"):
        half = slice(0, rows // 2) if mask == "top" else slice(rows - rows // 2, rows)
        hidden[:, half] = True
    elif mask == "block":
        tops = random.integers(rows - rows // 2 + 1, n)
        lefts = random.integers(columns - columns // 2 + 1, n)
        for picture, top, left in zip(hidden, tops, lefts):
            picture[top : top + rows // 2, left : left + columns // 2] = True
    else:
        hidden[:] = _hidden_in_file(mask, shape)
    return ~hidden.reshape(n, rows * columns)


def _hidden_in_file(path: str, shape: tuple[int, int]) -> np.ndarray:
    from PIL import Image, UnidentifiedImageError

    if not Path(path).is_file():
        raise InputError(
            f"mask: {path!r} is neither {', '.join(MASKS)} nor a picture file; give one of these"
        )
    try:
        with Image.open(path) as picture:
            grey = np.asarray(picture.convert("L"))
    except (UnidentifiedImageError, OSError) as error:
        raise InputError(f"mask: {path} is not a picture that can be read ({error})") from None
    if grey.shape != tuple(shape):
        raise InputError(
            f"mask: {path} has {grey.shape[0]}x{grey.shape[1]} pixels (rows x columns), expected "
            f"{shape[0]}x{shape[1]}; scale the picture"
        )
    return grey < 128


def _checked(
    model: HelmholtzSampler, x: np.ndarray, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    x, known = np.asarray(x, np.float32), np.asarray(known)
    if x.ndim != 2 or x.shape[1] != model.sizes[0]:
        raise InputError(f"x: shape {x.shape}; expected (chains, {model.sizes[0]})")
    if known.dtype != bool or known.shape not in (x.shape, x.shape[1:]):
        raise InputError(
            f"known: {known.dtype} of shape {known.shape}; expected bool of shape {x.shape} or "
            f"{x.shape[1:]}"
        )
    if not np.all((x >= 0) & (x <= 1) | ~known):
        raise InputError("x: known values outside [0, 1] or not numbers; scale them into [0, 1]")
    return x, known

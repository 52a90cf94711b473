"""The gradient of the total variation of images, in one pass over memory.

The total variation of an image is the sum of |d| over the differences d between vertically and
horizontally neighbouring pixels, with |d| smoothed to sqrt(d^2 + SMOOTHING^2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bihm_repro.ops.fused import FusedOp

__all__ = ["SMOOTHING", "gradient_of_images", "total_variation_gradient"]

SMOOTHING = 0.1


class TotalVariationGradient(FusedOp):
    """See ``total_variation_gradient``."""

    arrays, integers, counts = ("images",), ("height", "width"), (1, 2)
    outputs = {"gradient": ("rows", "height * width")}
    kernels = "total_variation.h"
    sizes = "const npy_intp rows = DIM(images, 0);"
    fits = "height > 0 && width > 0 && DIM(images, 1) == height * width"
    call = f"bihm::total_variation_gradient(images, rows, height, width, {SMOOTHING}f, gradient)"
    jax_name = "total_variation_gradient"

    def reference(self, images, height, width) -> tuple:
        return (gradient_of_images(np, images, int(height), int(width)),)

    def infer_shape(self, *arguments) -> list[tuple]:
        return [arguments[-1][0]]


def total_variation_gradient(images: Any, height: int, width: int) -> Any:
    """Return the gradient of the sum over ``images`` (n, height * width), of the same shape."""
    return TotalVariationGradient()(images, height, width)


def gradient_of_images(numeric: Any, images: Any, height: int, width: int) -> Any:
    """Compute ``total_variation_gradient`` with numpy or jax.numpy."""
    pixels = images.reshape(len(images), height, width)
    gradient: Any = 0
    for axis in (1, 2):
        difference = numeric.diff(pixels, axis=axis)
        slope = difference / numeric.sqrt(difference**2 + SMOOTHING**2)
        before, after = [(0, 0)] * 3, [(0, 0)] * 3
        before[axis], after[axis] = (1, 0), (0, 1)
        gradient += numeric.pad(slope, before) - numeric.pad(slope, after)
    return gradient.reshape(images.shape)

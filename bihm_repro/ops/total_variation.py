"""The gradient of the total variation of images, in one pass over memory; see ``images``."""

from __future__ import annotations

from typing import Any

import numpy as np

from bihm_repro.ops.fused import FusedOp
from bihm_repro.ops.images import SMOOTHING, gradient_of_images

__all__ = ["total_variation_gradient"]


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

"""The gradient of the total variation of images, with numpy or jax.numpy.

The total variation of an image is the sum of |d| over the differences d between vertically and
horizontally neighbouring pixels, with |d| smoothed to sqrt(d^2 + SMOOTHING^2).
"""

from __future__ import annotations

from typing import Any

__all__ = ["SMOOTHING", "gradient_of_images"]

SMOOTHING = 0.1


def gradient_of_images(numeric: Any, images: Any, height: int, width: int) -> Any:
    """Return the gradient of the sum over ``images`` (n, height * width); of the same shape.

    ``numeric`` is the module that ``images`` is an array of.
    """
    pixels = images.reshape(len(images), height, width)
    gradient: Any = 0
    for axis in (1, 2):
        difference = numeric.diff(pixels, axis=axis)
        slope = difference / numeric.sqrt(difference**2 + SMOOTHING**2)
        before, after = [(0, 0)] * 3, [(0, 0)] * 3
        before[axis], after[axis] = (1, 0), (0, 1)
        gradient += numeric.pad(slope, before) - numeric.pad(slope, after)
    return gradient.reshape(images.shape)

"""A total variation penalty on the weights p0.W of p(x|h1), each row of which is an image.

The weights from one unit to the pixels form an image. Its total variation is the sum of
|d| over the differences d between vertically and horizontally neighbouring pixels, with |d|
smoothed to sqrt(d^2 + SMOOTHING^2). It prefers piecewise constant images (Rudin, Osher and Fatemi
1992; the fused lasso of Tibshirani et al. 2005), where L1 prefers images with few pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bihm_repro.engine.symbolic import T
from bihm_repro.errors import InputError

__all__ = ["SMOOTHING", "total_variation_gradient", "with_total_variation"]

SMOOTHING = 0.1


def with_total_variation(
    gradients: Mapping[Any, Any], image_shape: tuple[int, int] | None, strength: float
) -> dict[Any, Any]:
    """Return ``gradients``, by parameter, with that of the penalty added; p0.W is (units, pixels).

    InputError where the rows of p0.W are no images.
    """
    setting = f"total_variation = {strength:g}"
    if image_shape is None:
        raise InputError(
            f"{setting}: the rows of the data set are no images; set it to 0, or import the data "
            "with their height and width"
        )
    pixels = image_shape[0] * image_shape[1]
    for weights, gradient in gradients.items():
        if weights.name == "p0.W" and weights.get_value(borrow=True).shape[1] == pixels:
            added = total_variation_gradient(weights, image_shape, strength)
            return {**gradients, weights: gradient + added}
    raise InputError(f"{setting}: this model has no weights p0.W to the pixels; set it to 0")


def total_variation_gradient(weights: Any, image_shape: tuple[int, int], strength: float) -> Any:
    """Return the gradient of ``strength`` times the total variation of the rows of ``weights``."""
    images = weights.reshape((weights.shape[0], *image_shape))
    gradient = _along(images, 1) + _along(images, 2)
    return np.float32(strength) * gradient.reshape(weights.shape)


def _along(images: Any, axis: int) -> Any:
    """Return the gradient of the sum of the smoothed differences along ``axis``."""
    whole = slice(None)
    later, earlier = ((whole,) * axis + (part,) for part in (slice(1, None), slice(None, -1)))
    difference = images[later] - images[earlier]
    slope = difference / T.sqrt(T.sqr(difference) + np.float32(SMOOTHING**2))
    edge = (whole,) * axis + (slice(None, 1),)
    nothing = T.zeros_like(images[edge])
    return T.concatenate([nothing, slope], axis) - T.concatenate([slope, nothing], axis)

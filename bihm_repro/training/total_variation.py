"""A total variation penalty on the weights p0.W of p(x|h1), each row of which is an image.

The weights from one unit to the pixels form an image. The penalty prefers piecewise constant images
(Rudin, Osher and Fatemi 1992; the fused lasso of Tibshirani et al. 2005), where L1 prefers images
with few pixels. See ``ops.total_variation`` for its definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.ops.total_variation import total_variation_gradient

__all__ = ["with_total_variation"]


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
            slope = total_variation_gradient(weights, *image_shape)
            return {**gradients, weights: gradient + np.float32(strength) * slope}
    raise InputError(f"{setting}: this model has no weights p0.W to the pixels; set it to 0")

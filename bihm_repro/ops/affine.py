"""x W + b as an array, for logits that more than one layer Op reads.

The layer Ops make their logits themselves, block by block, and keep none. Where q(h1 | x) is both
scored and drawn for the same x, as in 2 log Z, the widest product of the model would be made twice.
"""

from __future__ import annotations

from typing import Any

from bihm_repro.ops.fused import FusedOp

__all__ = ["affine"]


class Affine(FusedOp):
    """See ``affine``."""

    arrays, like = ("x", "weights", "bias"), 1
    outputs = {"out": ("rows", "units")}
    sizes = "const npy_intp rows = DIM(x, 0), inputs = DIM(x, 1), units = DIM(weights, 1);"
    fits = "DIM(weights, 0) == inputs && DIM(bias, 0) == units"
    call = "bihm::affine(x, weights, bias, rows, inputs, units, out), true"
    jax_name = "affine"

    def reference(self, x, weights, bias) -> tuple:
        return (x @ weights + bias,)

    def infer_shape(self, *arguments) -> list[tuple]:
        x, weights, _ = arguments[-1]
        return [(x[0], weights[1])]


def affine(x: Any, weights: Any, bias: Any) -> Any:
    """Return x W + b, (rows, units), rounded the same way whatever the number of threads."""
    return Affine()(x, weights, bias)

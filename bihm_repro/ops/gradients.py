"""Weight gradients from residuals: the products of Algorithm 1's last step."""

from __future__ import annotations

from typing import Any

import numpy as np

from bihm_repro.ops.fused import FusedOp

__all__ = ["column_means", "summed_residual", "weighted_gradient"]


class WeightedGradient(FusedOp):
    """See ``weighted_gradient``."""

    arrays, like = ("a", "r", "weight"), 1
    outputs = {"gradient": ("inputs", "units"), "bias": ("units",)}
    sizes = "const npy_intp rows = DIM(a, 0), inputs = DIM(a, 1), units = DIM(r, 1);"
    fits = "DIM(r, 0) == rows && DIM(weight, 0) == rows"
    call = "bihm::weighted_gradient(a, r, weight, rows, inputs, units, gradient, bias)"
    jax_name = "weighted_gradient"

    def reference(self, a, r, weight) -> tuple:
        scaled = r * weight[:, None]
        return a.T @ scaled, scaled.sum(axis=0)

    def infer_shape(self, *arguments) -> list[tuple]:
        a, r, _ = arguments[-1]
        return [(a[1], r[1]), (r[1],)]


class SummedResidual(FusedOp):
    """See ``summed_residual``."""

    arrays = ("mean", "sample", "weight")
    outputs = {"residual": ("n", "units")}
    sizes = "const npy_intp n = DIM(mean, 0), units = DIM(mean, 1), rows = DIM(sample, 0);"
    fits = "n > 0 && rows % n == 0 && DIM(sample, 1) == units && DIM(weight, 0) == rows"
    call = "bihm::summed_residual(mean, sample, weight, n, units, rows / n, residual), true"
    jax_name = "summed_residual"

    def reference(self, mean, sample, weight) -> tuple:
        n, units = mean.shape
        weight = weight.reshape(n, -1)
        drawn = np.einsum("nk,nku->nu", weight, sample.reshape(n, -1, units))
        return (weight.sum(axis=1)[:, None] * mean - drawn,)

    def infer_shape(self, *arguments) -> list[tuple]:
        return [arguments[-1][0]]


class ColumnMeans(FusedOp):
    """See ``column_means``."""

    arrays, outputs = ("a",), {"means": ("DIM(a, 1)",)}
    call = "bihm::column_means(a, DIM(a, 0), DIM(a, 1), means), true"
    jax_name = "column_means"

    def reference(self, a) -> tuple:
        return (a.mean(axis=0),)

    def infer_shape(self, *arguments) -> list[tuple]:
        return [(arguments[-1][0][1],)]


def column_means(a: Any) -> Any:
    """Return the mean of the rows of ``a`` (rows, columns), (columns,), for centred updates."""
    return ColumnMeans()(a)


def weighted_gradient(a: Any, residual: Any, weight: Any) -> tuple:
    """Return a^T diag(weight) residual (inputs, units) and weight^T residual (units,).

    ``a`` is (rows, inputs), ``residual`` (rows, units) and ``weight`` (rows,).
    """
    return tuple(WeightedGradient()(a, residual, weight))


def summed_residual(mean: Any, sample: Any, weight: Any) -> Any:
    """Return sum_k weight_ik (mean_i - sample_ik), (n, units), of a layer drawn K times.

    ``mean`` is (n, units); ``sample`` (n * K, units) has the K samples of a row next to each other,
    as has ``weight`` (n * K,).
    """
    return SummedResidual()(mean, sample, weight)

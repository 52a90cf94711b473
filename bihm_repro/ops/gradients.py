"""Weight gradients from residuals: the products of Algorithm 1's last step.

``weighted_gradient(a, r, w)``: a^T diag(w) r for the weights and w^T r for the bias.
``summed_residual(mean, h, w)``: sum_k w_k (mean - h_k), for a layer drawn K times from one mean.
``column_means(a)``: the mean of the rows of a, for centred updates.
"""

from __future__ import annotations

import numpy as np

from bihm_repro.engine.symbolic import Apply, T
from bihm_repro.ops.fused import FusedOp

__all__ = [
    "weighted_gradient",
    "summed_residual",
    "column_means",
    "WeightedGradient",
    "SummedResidual",
    "ColumnMeans",
]


class WeightedGradient(FusedOp):
    """See ``weighted_gradient``."""

    def make_node(self, a, r, weight) -> Apply:
        """Inputs: a (rows, inputs), r (rows, units), weight (rows,)."""
        inputs = [T.as_tensor_variable(v) for v in (a, r, weight)]
        dtype = inputs[1].dtype
        return Apply(self, inputs, [T.matrix(dtype=dtype), T.vector(dtype=dtype)])

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        a, r, weight = inputs
        scaled = r * weight[:, None]
        storage[0][0] = a.T @ scaled
        storage[1][0] = scaled.sum(axis=0)

    def jax_form(self, a, r, weight) -> tuple:
        """The same in JAX."""
        from bihm_repro.ops import jax_forms

        return jax_forms.weighted_gradient(a, r, weight)

    def infer_shape(self, *arguments) -> list[tuple]:
        """(inputs, units) and (units,)."""
        shapes = arguments[-1]
        return [(shapes[0][1], shapes[1][1]), (shapes[1][1],)]

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        a, r, weight = inputs
        gradient, bias = outputs
        return f"""
        {{
        PyArrayObject *a = bihm::row_major({a}), *r = bihm::row_major({r}),
            *weight = bihm::row_major({weight});
        bool ok = a && r && weight && PyArray_DIMS(a)[0] == PyArray_DIMS(r)[0] &&
            PyArray_DIMS(weight)[0] == PyArray_DIMS(r)[0] &&
            bihm::prepare(&{gradient}, 2, PyArray_DIMS(a)[1], PyArray_DIMS(r)[1]) &&
            bihm::prepare(&{bias}, 1, PyArray_DIMS(r)[1], 0);
        if (ok) {{
            Py_BEGIN_ALLOW_THREADS
            ok = bihm::weighted_gradient(bihm::floats(a), bihm::floats(r), bihm::floats(weight),
                PyArray_DIMS(a)[0], PyArray_DIMS(a)[1], PyArray_DIMS(r)[1],
                bihm::floats({gradient}), bihm::floats({bias}));
            Py_END_ALLOW_THREADS
        }}
        Py_XDECREF(a); Py_XDECREF(r); Py_XDECREF(weight);
        if (!ok) {{
            bihm::complain("WeightedGradient: shapes do not fit, or no memory");
            {sub["fail"]}
        }}
        }}
        """


class SummedResidual(FusedOp):
    """See ``summed_residual``."""

    def make_node(self, mean, sample, weight) -> Apply:
        """Inputs: mean (n, units), sample (n * K, units), weight (n * K,)."""
        inputs = [T.as_tensor_variable(v) for v in (mean, sample, weight)]
        return Apply(self, inputs, [T.matrix(dtype=inputs[0].dtype)])

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        mean, sample, weight = inputs
        n, units = mean.shape
        weight = weight.reshape(n, -1)
        drawn = sample.reshape(n, -1, units)
        storage[0][0] = (
            weight.sum(axis=1)[:, None] * mean - np.einsum("nk,nku->nu", weight, drawn)
        ).astype(mean.dtype)

    def jax_form(self, mean, sample, weight):
        """The same in JAX."""
        from bihm_repro.ops import jax_forms

        return jax_forms.summed_residual(mean, sample, weight)

    def infer_shape(self, *arguments) -> list[tuple]:
        """The shape of the means."""
        return [arguments[-1][0]]

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        mean, sample, weight = inputs
        return f"""
        {{
        PyArrayObject *mean = bihm::row_major({mean}), *sample = bihm::row_major({sample}),
            *weight = bihm::row_major({weight});
        bool ok = mean && sample && weight;
        if (ok) {{
            const npy_intp n = PyArray_DIMS(mean)[0], units = PyArray_DIMS(mean)[1];
            const npy_intp rows = PyArray_DIMS(sample)[0];
            ok = n > 0 && rows % n == 0 && PyArray_DIMS(sample)[1] == units &&
                PyArray_DIMS(weight)[0] == rows && bihm::prepare(&{outputs[0]}, 2, n, units);
            if (ok) bihm::summed_residual(bihm::floats(mean), bihm::floats(sample),
                bihm::floats(weight), n, units, rows / n, bihm::floats({outputs[0]}));
        }}
        Py_XDECREF(mean); Py_XDECREF(sample); Py_XDECREF(weight);
        if (!ok) {{
            bihm::complain("SummedResidual: shapes do not fit, or no memory");
            {sub["fail"]}
        }}
        }}
        """


class ColumnMeans(FusedOp):
    """See ``column_means``."""

    def make_node(self, a) -> Apply:
        """Input: a (rows, columns)."""
        a = T.as_tensor_variable(a)
        return Apply(self, [a], [T.vector(dtype=a.dtype)])

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        storage[0][0] = inputs[0].mean(axis=0)

    def jax_form(self, a):
        """The same in JAX."""
        return a.mean(axis=0)

    def infer_shape(self, *arguments) -> list[tuple]:
        """(columns,)."""
        return [(arguments[-1][0][1],)]

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on a row-major array."""
        self.require_float32(node)
        return f"""
        {{
        PyArrayObject* a = bihm::row_major({inputs[0]});
        const bool ok = a && bihm::prepare(&{outputs[0]}, 1, PyArray_DIMS(a)[1], 0);
        if (ok) bihm::column_means(bihm::floats(a), PyArray_DIMS(a)[0], PyArray_DIMS(a)[1],
                                   bihm::floats({outputs[0]}));
        Py_XDECREF(a);
        if (!ok) {{ bihm::complain("ColumnMeans: no memory"); {sub["fail"]} }}
        }}
        """


def column_means(a):
    """Return the mean of the rows of ``a`` (rows, columns), shape (columns,)."""
    return ColumnMeans()(a)


def weighted_gradient(a, residual, weight) -> tuple:
    """a^T diag(weight) residual (inputs, units) and weight^T residual (units,).

    Parameters
    ----------
    a : (rows, inputs)
    residual : (rows, units)
    weight : (rows,)
    """
    return tuple(WeightedGradient()(a, residual, weight))


def summed_residual(mean, sample, weight):
    """sum_k weight_ik (mean_i - sample_ik), shape (n, units).

    Parameters
    ----------
    mean : (n, units)
    sample : (n * K, units), the K samples of a row next to each other
    weight : (n * K,)
    """
    return SummedResidual()(mean, sample, weight)

"""x W + b as an array, for logits that more than one layer Op reads.

The layer Ops make their logits themselves, block by block, and keep none. Where q(h1 | x) is both
scored and drawn for the same x, as in 2 log Z, the widest product of the model would be made twice.
"""

from __future__ import annotations

from bihm_repro.engine.symbolic import Apply, T
from bihm_repro.ops.fused import FusedOp

__all__ = ["affine", "Affine"]


class Affine(FusedOp):
    """See ``affine``."""

    def make_node(self, x, weights, bias) -> Apply:
        """Inputs: x (rows, inputs), weights (inputs, units), bias (units,)."""
        inputs = [T.as_tensor_variable(v) for v in (x, weights, bias)]
        return Apply(self, inputs, [T.matrix(dtype=inputs[1].dtype)])

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        x, weights, bias = inputs
        storage[0][0] = x @ weights + bias

    def jax_form(self, x, weights, bias):
        """The same in JAX."""
        from bihm_repro.ops import jax_forms

        return jax_forms.affine(x, weights, bias)

    def infer_shape(self, *arguments) -> list[tuple]:
        """Rows of x, columns of the weights."""
        shapes = arguments[-1]
        return [(shapes[0][0], shapes[1][1])]

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        x, weights, bias = inputs
        return f"""
        {{
        PyArrayObject *x = bihm::row_major({x}), *weights = bihm::row_major({weights}),
            *bias = bihm::row_major({bias});
        bool ok = x && weights && bias && PyArray_DIMS(x)[1] == PyArray_DIMS(weights)[0] &&
            PyArray_DIMS(weights)[1] == PyArray_DIMS(bias)[0] &&
            bihm::prepare(&{outputs[0]}, 2, PyArray_DIMS(x)[0], PyArray_DIMS(weights)[1]);
        if (ok) {{
            Py_BEGIN_ALLOW_THREADS
            bihm::affine(bihm::floats(x), bihm::floats(weights), bihm::floats(bias),
                PyArray_DIMS(x)[0], PyArray_DIMS(x)[1], PyArray_DIMS(weights)[1],
                bihm::floats({outputs[0]}));
            Py_END_ALLOW_THREADS
        }}
        Py_XDECREF(x); Py_XDECREF(weights); Py_XDECREF(bias);
        if (!ok) {{
            bihm::complain("Affine: shapes do not fit, or no memory");
            {sub["fail"]}
        }}
        }}
        """


def affine(x, weights, bias):
    """x W + b, shape (rows, units), rounded the same way whatever the number of threads.

    Parameters
    ----------
    x : (rows, inputs)
    weights, bias : (inputs, units) and (units,)
    """
    return Affine()(x, weights, bias)

"""Annealed importance sampling (Neal, 2001; Salakhutdinov and Murray, 2008) of an RBM, fused.

The distributions p_beta(v) ~ exp(b v) prod_j (1 + exp(beta (c_j + v W_j))) go from independent
visible units, beta = 0, to the model, beta = 1. A chain starts at the first; at each beta in turn
its weight is multiplied by the ratio of the new density to the old one, and it takes a Gibbs step.
The expectation of the weights is Z / Z_0 with Z_0 = 2^hidden prod_i (1 + exp(b_i)).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bihm_repro.engine.symbolic import Apply, T
from bihm_repro.ops.fused import FusedOp
from bihm_repro.ops.numerics import sigmoid, softplus
from bihm_repro.ops.random_numbers import uniform

__all__ = ["AnnealedWeights", "annealed_log_weights"]

_KERNELS = (Path(__file__).parent / "annealing.h").read_text(encoding="utf-8")


class AnnealedWeights(FusedOp):
    """See ``annealed_log_weights``."""

    counts = (-4, -3)

    def make_node(self, *inputs) -> Apply:
        """Inputs: W, b, c, then chains, steps, seed, counter."""
        arrays = [T.as_tensor_variable(v) for v in inputs[:3]]
        integers = [T.cast(T.as_tensor_variable(v), "int64") for v in inputs[3:]]
        return Apply(self, arrays + integers, [T.vector(dtype=arrays[0].dtype)])

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        w, b, c, chains, steps, seed, counter = inputs
        chains, steps, counter = int(chains), int(steps), int(counter)
        v = uniform(int(seed), counter, chains, len(b)) < sigmoid(b)
        total = np.zeros(chains)
        for step in range(1, steps + 1):
            a, beta = v @ w + c, step / steps
            total += (softplus(beta * a) - softplus((step - 1) / steps * a)).sum(axis=1)
            h = uniform(int(seed), counter + 2 * step - 1, *a.shape) < sigmoid(beta * a)
            logits = b + beta * (h @ w.T)
            v = uniform(int(seed), counter + 2 * step, *logits.shape) < sigmoid(logits)
        storage[0][0] = total.astype(w.dtype)

    def jax_form(self, w, b, c, chains, steps, seed, counter):
        """The same in JAX."""
        import jax
        import jax.numpy as jnp

        from bihm_repro.ops import jax_random_numbers as numbers

        chains, steps = int(chains), int(steps)

        def anneal(step, carry):
            v, total = carry
            a, beta = v @ w + c, (step / steps).astype(w.dtype)
            before = ((step - 1) / steps).astype(w.dtype)
            total = total + (jax.nn.softplus(beta * a) - jax.nn.softplus(before * a)).sum(axis=1)
            u = numbers.uniform(seed, counter + 2 * step - 1, *a.shape)
            h = (u < jax.nn.sigmoid(beta * a)).astype(w.dtype)
            logits = b + beta * (h @ w.T)
            u = numbers.uniform(seed, counter + 2 * step, *logits.shape)
            return (u < jax.nn.sigmoid(logits)).astype(w.dtype), total

        first = numbers.uniform(seed, counter, chains, b.shape[0]) < jax.nn.sigmoid(b)
        start = first.astype(w.dtype), jnp.zeros(chains, w.dtype)
        return jax.lax.fori_loop(1, steps + 1, anneal, start)[1]

    def infer_shape(self, *arguments) -> list[tuple]:
        """(chains,)."""
        return [(arguments[-2].inputs[3],)]

    def c_support_code(self, **kwargs) -> str:
        """Return the kernels."""
        return super().c_support_code(**kwargs) + _KERNELS

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        w, b, c, chains, steps, seed, counter = inputs
        return f"""
        {{
        PyArrayObject *w = bihm::row_major({w}), *b = bihm::row_major({b}),
            *c = bihm::row_major({c}), *transposed = NULL;
        PyObject* view = PyArray_Transpose({w}, NULL);
        if (view) transposed = bihm::row_major((PyArrayObject*)view);
        const npy_intp chains = bihm::whole({chains}), steps = bihm::whole({steps});
        bool ok = w && b && c && transposed && chains > 0 && steps > 0 &&
            PyArray_DIMS(b)[0] == PyArray_DIMS(w)[0] &&
            PyArray_DIMS(c)[0] == PyArray_DIMS(w)[1] &&
            bihm::prepare(&{outputs[0]}, 1, chains, 0);
        if (ok) {{
            Py_BEGIN_ALLOW_THREADS
            ok = bihm::annealed_weights(bihm::floats(w), bihm::floats(transposed),
                bihm::floats(b), bihm::floats(c), PyArray_DIMS(w)[0], PyArray_DIMS(w)[1], chains,
                steps, bihm::whole({seed}), bihm::whole({counter}), bihm::floats({outputs[0]}));
            Py_END_ALLOW_THREADS
        }}
        Py_XDECREF(w); Py_XDECREF(b); Py_XDECREF(c); Py_XDECREF(transposed); Py_XDECREF(view);
        if (!ok) {{
            bihm::complain("AnnealedWeights: shapes do not fit, or no memory");
            {sub["fail"]}
        }}
        }}
        """


def annealed_log_weights(w, b, c, *, chains, steps, seed, counter) -> tuple[Any, Any]:
    """Return the logarithms of the weights, (chains,), and the number of counters used.

    Parameters
    ----------
    w, b, c : (visible, hidden), (visible,), (hidden,)
    chains, steps : chains, and inverse temperatures after the first
    """
    return AnnealedWeights()(w, b, c, chains, steps, seed, counter), 2 * steps + 1

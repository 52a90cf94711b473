"""Adam (Kingma and Ba, 2015) with L1 and L2, in one pass over a parameter and its two moments."""

from __future__ import annotations

import numpy as np

from bihm_repro.engine.symbolic import Apply, T
from bihm_repro.ops.fused import FusedOp

__all__ = ["adam_update", "AdamUpdate"]


class AdamUpdate(FusedOp):
    """Overwrites parameter, first and second moment; see ``adam_update``."""

    __props__ = ("decay1", "decay2", "epsilon")
    destroy_map = {0: [0], 1: [1], 2: [2]}

    def __init__(self, decay1: float, decay2: float, epsilon: float) -> None:
        self.decay1, self.decay2, self.epsilon = decay1, decay2, epsilon

    def make_node(self, parameter, first, second, gradient, rate, l1, l2) -> Apply:
        """Inputs: four arrays of one shape and three scalars of their type."""
        arrays = [T.as_tensor_variable(v) for v in (parameter, first, second, gradient)]
        scalars = [T.cast(T.as_tensor_variable(v), arrays[0].dtype) for v in (rate, l1, l2)]
        return Apply(self, arrays + scalars, [v.type() for v in arrays[:3]])

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        parameter, first, second, gradient, rate, l1, l2 = inputs
        g = gradient + l1 * np.sign(parameter) + l2 * parameter
        first *= self.decay1
        first += (1 - self.decay1) * g
        second *= self.decay2
        second += (1 - self.decay2) * g * g
        parameter -= rate * first / (np.sqrt(second) + self.epsilon)
        for cell, value in zip(storage, (parameter, first, second)):
            cell[0] = value

    def jax_form(self, *inputs) -> tuple:
        """The same in JAX, in new arrays."""
        from bihm_repro.ops import jax_forms

        return jax_forms.adam_update(*inputs, decay1=self.decay1, decay2=self.decay2,
                                     epsilon=self.epsilon)

    def infer_shape(self, *arguments) -> list[tuple]:
        """The shapes of what is overwritten."""
        return list(arguments[-1][:3])

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel in place."""
        self.require_float32(node)
        parameter, first, second, gradient, rate, l1, l2 = inputs
        given = (parameter, first, second)
        fits = " && ".join(f"PyArray_IS_C_CONTIGUOUS({v}) && PyArray_SIZE({v}) == n"
                           for v in given)
        hand_over = "".join(f"Py_INCREF({i}); Py_XDECREF({o}); {o} = {i};\n"
                            for i, o in zip(given, outputs))
        return f"""
        {{
        PyArrayObject* gradient = bihm::row_major({gradient});
        const npy_intp n = PyArray_SIZE({gradient});
        if (!gradient || !({fits})) {{
            Py_XDECREF(gradient);
            PyErr_SetString(PyExc_ValueError, "AdamUpdate: shapes do not fit");
            {sub["fail"]}
        }}
        Py_BEGIN_ALLOW_THREADS
        bihm::adam(bihm::floats({parameter}), bihm::floats({first}), bihm::floats({second}),
            bihm::floats(gradient), n, *bihm::floats({rate}), {self.decay1}f,
            {1 - self.decay1:.9e}f, {self.decay2}f, {1 - self.decay2:.9e}f, {self.epsilon}f,
            *bihm::floats({l1}), *bihm::floats({l2}));
        Py_END_ALLOW_THREADS
        Py_DECREF(gradient);
        {hand_over}
        }}
        """


def adam_update(parameter, first, second, gradient, rate, *, l1=0.0, l2=0.0,
                decay1: float = 0.9, decay2: float = 0.999, epsilon: float = 1e-8) -> list:
    """New values of (parameter, first moment, second moment), made in their own memory.

    ``rate`` is the learning rate times the bias correction sqrt(1 - decay2^t) / (1 - decay1^t).
    ``l1 * sign(w) + l2 * w`` is added to the gradient.
    """
    return AdamUpdate(decay1, decay2, epsilon)(parameter, first, second, gradient, rate, l1, l2)

"""Adam (Kingma and Ba, 2015) with penalties, centring and Polyak averages in one pass over memory.

For a linear map a W + b with the gradients G of W and g of b, and c the running mean of the
inputs a, the centred update follows G - c g^T in place of G and then subtracts c^T dW from b:
the update of the parametrisation (a - c) W + b', written back into W and b. With c = 0 it is the
plain update.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bihm_repro.engine.symbolic import Apply, T
from bihm_repro.ops.fused import FusedOp

__all__ = ["DECAY1", "DECAY2", "EPSILON", "adam_update", "centred_adam_update", "upper_triangle"]

DECAY1, DECAY2, EPSILON = 0.9, 0.999, 1e-8
"""The decays of the two moments, and what is added to the root of the second."""


class _Adam(FusedOp):
    """What both Ops share: how L1 is applied, and whether averages are kept.

    proximal : l1 is a soft threshold, applied after the step, and not a part of the gradient
    averaged : keep a Polyak average of each parameter as well
    """

    __props__: tuple[str, ...] = ("proximal", "averaged")
    states = 1

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self.destroy_map = {i: [i] for i in range(self.states * self.width)}

    @property
    def width(self) -> int:
        """Arrays that are overwritten for each parameter: itself, two moments, its average."""
        return 4 if self.averaged else 3

    def make_node(self, *inputs) -> Apply:
        arrays = [T.as_tensor_variable(v) for v in inputs[:-4]]
        scalars = [T.cast(T.as_tensor_variable(v), arrays[0].dtype) for v in inputs[-4:]]
        return Apply(self, arrays + scalars, [v.type() for v in arrays[: len(self.destroy_map)]])

    def perform(self, node, inputs, storage) -> None:
        for cell, old, value in zip(storage, inputs, self.new_state(np, *inputs)):
            old[...] = value
            cell[0] = old

    def jax_form(self, *inputs) -> tuple:
        import jax.numpy

        return self.new_state(jax.numpy, *inputs)

    def infer_shape(self, *arguments) -> list[tuple]:
        return list(arguments[-1][: len(self.destroy_map)])

    def step(self, numeric: Any, state: list, gradient: Any, scalars: list) -> list:
        """Return the new ``state`` (parameter, moments, average), with numpy or jax.numpy."""
        w, first, second = state[:3]
        rate, average_weight, l1, l2 = scalars
        g = gradient + (0 if self.proximal else l1) * numeric.sign(w) + l2 * w
        first = DECAY1 * first + (1 - DECAY1) * g
        second = DECAY2 * second + (1 - DECAY2) * g * g
        new = w - rate * first / (numeric.sqrt(second) + EPSILON)
        if self.proximal:
            new = numeric.sign(new) * numeric.maximum(abs(new) - l1, 0)
        return [new, first, second, *(_averaged(mean, new, average_weight) for mean in state[3:])]

    def _settings(self, scalars: list[str]) -> str:
        rate, weight, l1, l2 = (f"*bihm::floats({v})" for v in scalars)
        return (
            f"bihm::AdamSettings{{{rate}, {DECAY1}f, {1 - DECAY1:.9e}f, "
            f"{DECAY2}f, {1 - DECAY2:.9e}f, {EPSILON}f, {l1}, {l2}, "
            f"{weight}, {str(self.proximal).lower()}}}"
        )

    def _c_body(
        self,
        inputs: list[str],
        outputs: list[str],
        gradients: list[str],
        fits: list[str],
        call: str,
        fail: str,
    ) -> str:
        """Borrow ``gradients`` as row-major arrays, check ``fits``, run ``call``, hand over."""
        borrow = "".join(f"PyArrayObject* a_{v} = bihm::row_major({v});\n" for v in gradients)
        give_back = "".join(f"Py_XDECREF(a_{v});\n" for v in gradients)
        contiguous = [f"PyArray_IS_C_CONTIGUOUS({v})" for v in inputs[: len(outputs)]]
        hand_over = "".join(
            f"Py_INCREF({i}); Py_XDECREF({o}); {o} = {i};\n" for i, o in zip(inputs, outputs)
        )
        return f"""
        {{
        {borrow}
        bool ok = {" && ".join([f"a_{v}" for v in gradients] + contiguous + fits)};
        if (ok) {{
            Py_BEGIN_ALLOW_THREADS
            {call}
            Py_END_ALLOW_THREADS
        }}
        {give_back}
        if (!ok) {{
            bihm::complain("{type(self).__name__}: shapes or counts do not fit, or no memory");
            {fail}
        }}
        {hand_over}
        }}
        """

    def _state(self, names: list[str]) -> str:
        average = f"bihm::floats({names[3]})" if self.averaged else "NULL"
        return ", ".join([*(f"bihm::floats({v})" for v in names[:3]), average])


class AdamUpdate(_Adam):
    """Inputs: the state, which is overwritten, the gradient, then rate, average weight, l1, l2."""

    def new_state(self, numeric: Any, *inputs) -> tuple:
        """Return the new state, with numpy or jax.numpy."""
        return tuple(self.step(numeric, list(inputs[:-5]), inputs[-5], list(inputs[-4:])))

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        self.require_float32(node)
        state, gradient = inputs[:-5], inputs[-5]
        fits = [f"PyArray_SIZE({v}) == PyArray_SIZE(a_{gradient})" for v in state]
        call = (
            f"ok = bihm::adam({self._state(state)}, bihm::floats(a_{gradient}), 1, "
            f"PyArray_SIZE(a_{gradient}), {self._settings(inputs[-4:])}, NULL, NULL, NULL, 1);"
        )
        return self._c_body(state, outputs, [gradient], fits, call, sub["fail"])


class CentredAdamUpdate(_Adam):
    """Inputs: the states of W and b, G, g, c, then rate, average weight, l1, l2.

    full_rows : the rows of W from here on are strictly upper triangular; None where none are
    """

    __props__ = (*_Adam.__props__, "full_rows")
    states, full_rows = 2, None

    def new_state(self, numeric: Any, *inputs) -> tuple:
        """Return the new states, with numpy or jax.numpy."""
        width = self.width
        *state, gradient, bias_gradient, centre, rate, weight, l1, l2 = inputs
        weights, bias = state[:width], state[width:]
        shared = centre[:, None] * bias_gradient
        if self.full_rows is not None:
            rows, columns = gradient.shape
            shared = shared * upper_triangle(rows, columns, self.full_rows, gradient.dtype)
        new = self.step(numeric, weights, gradient - shared, [rate, weight, l1, l2])
        new_bias = self.step(numeric, bias[:3], bias_gradient, [rate, weight, 0, 0])
        new_bias[0] = new_bias[0] - (centre[:, None] * (new[0] - weights[0])).sum(axis=0)
        means = [_averaged(mean, new_bias[0], weight) for mean in bias[3:]]
        return (*new, *new_bias, *means)

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        self.require_float32(node)
        weights, bias = inputs[: self.width], inputs[self.width : 2 * self.width]
        gradients = inputs[-7:-4]
        gradient, bias_gradient, centre = (f"a_{v}" for v in gradients)
        fits = [f"PyArray_SIZE({v}) == PyArray_SIZE({gradient})" for v in weights]
        fits += [
            f"PyArray_SIZE({v}) == PyArray_DIMS({gradient})[1]" for v in [*bias, bias_gradient]
        ]
        fits += [f"PyArray_SIZE({centre}) == PyArray_DIMS({gradient})[0]"]
        call = f"""
            const npy_intp rows = PyArray_DIMS({gradient})[0], units = PyArray_DIMS({gradient})[1];
            bihm::AdamSettings settings = {self._settings(inputs[-4:])};
            const npy_intp full_rows = {"rows" if self.full_rows is None else self.full_rows};
            float* shift = bihm::scratch(units + 1);
            ok = shift && bihm::adam({self._state(weights)}, bihm::floats({gradient}), rows, units,
                settings, bihm::floats({centre}), bihm::floats({bias_gradient}), shift, full_rows);
            settings.l1 = settings.l2 = 0.0f;
            ok = ok && bihm::adam({self._state(bias)}, bihm::floats({bias_gradient}), 1, units,
                settings, NULL, NULL, shift, 1);
            std::free(shift);
        """
        return self._c_body(inputs[: 2 * self.width], outputs, gradients, fits, call, sub["fail"])


def adam_update(
    state: list,
    gradient: Any,
    rate: Any,
    *,
    average_weight: Any = 0.0,
    l1: Any = 0.0,
    l2: Any = 0.0,
    proximal: bool = False,
) -> list:
    """Return the new values of ``state``, made in its own memory.

    ``state`` is [parameter, first moment, second moment] and, where one is kept, its average.
    ``rate`` is the learning rate times the bias correction sqrt(1 - DECAY2^t) / (1 - DECAY1^t).
    ``l1 * sign(w) + l2 * w`` is added to the gradient; with ``proximal``, weights move by ``l1``
    towards zero after the step instead.
    """
    op = AdamUpdate(proximal, len(state) == 4)
    return op(*state, gradient, rate, average_weight, l1, l2)


def centred_adam_update(
    weights: list,
    bias: list,
    gradients: tuple[Any, Any, Any],
    rate: Any,
    *,
    average_weight: Any = 0.0,
    l1: Any = 0.0,
    l2: Any = 0.0,
    proximal: bool = False,
    full_rows: int | None = None,
) -> list:
    """Return the new values of the states ``weights`` and ``bias`` of a linear map, centred.

    ``gradients`` are those of the weights and of the bias, and the running mean of the inputs. The
    rows of the weights from ``full_rows`` on are strictly upper triangular; the rest is as in
    ``adam_update``.
    """
    op = CentredAdamUpdate(proximal, len(weights) == 4, full_rows)
    return op(*weights, *bias, *gradients, rate, average_weight, l1, l2)


def upper_triangle(rows: int, columns: int, full_rows: int, dtype: str) -> np.ndarray:
    """Return a mask: ones, and from row ``full_rows`` on those above a diagonal only.

    >>> upper_triangle(3, 2, 1, "int").tolist()
    [[1, 1], [0, 1], [0, 0]]
    """
    return np.triu(np.ones((rows, columns), dtype), 1 - full_rows)


def _averaged(mean, new, weight):
    return mean + weight * (new - mean)

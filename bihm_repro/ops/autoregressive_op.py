"""What the Ops of ``ops.autoregressive`` share: nodes, shapes, the numpy reference, C code.

A subclass gives ``pass_over_units``, ``c_code`` and ``jax_form``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bihm_repro.engine.symbolic import Apply, T
from bihm_repro.ops.bernoulli import row_log_probability
from bihm_repro.ops.fused import FusedOp
from bihm_repro.ops.numerics import sigmoid
from bihm_repro.ops.random_numbers import uniform

__all__ = [
    "ROWS_FIT",
    "AutoregressiveOp",
    "SampleOp",
    "ScoreOp",
    "dim",
    "floats",
    "has_shape",
    "row_sizes",
]

_KERNELS = (Path(__file__).parent / "autoregressive.h").read_text(encoding="utf-8")


class AutoregressiveOp(FusedOp):
    """What the Ops share: their kernels, and how C code gets at arrays and fails.

    per_row : how many of the arrays have a row for each row of the layer's inputs
    """

    per_row: int

    def c_support_code(self, **kwargs) -> str:
        """Return the kernels."""
        return super().c_support_code(**kwargs) + _KERNELS

    def outputs(self, names: list[str]) -> str:
        """Return C pointers to the outputs; the residual, the last, may be left out."""
        return floats(*names) + ("" if self.wants_residual else ", NULL")

    def c_body(self, arrays: list[str], sizes: str, fits: list[str], call: str, fail: str) -> str:
        """Borrow ``arrays`` as row-major arrays, define ``sizes``, check ``fits``, run ``call``."""
        borrow = "".join(f"PyArrayObject* a_{v} = bihm::row_major({v});\n" for v in arrays)
        give_back = "".join(f"Py_XDECREF(a_{v});\n" for v in arrays)
        return f"""
        {{
        {borrow}
        bool ok = {" && ".join(f"a_{v}" for v in arrays)};
        if (ok) {{
            {sizes}
            ok = {" && ".join(fits)};
            if (ok) {{
                Py_BEGIN_ALLOW_THREADS
                ok = {call};
                Py_END_ALLOW_THREADS
            }}
        }}
        {give_back}
        if (!ok) {{
            bihm::complain("{type(self).__name__}: shapes do not fit, or no memory");
            {fail}
        }}
        }}
        """


def floats(*names: str) -> str:
    """Return C pointers to arrays."""
    return ", ".join(f"bihm::floats({name})" for name in names)


def dim(name: str, axis: int) -> str:
    """Return a C expression for a dimension of a borrowed array."""
    return f"PyArray_DIMS(a_{name})[{axis}]"


def has_shape(name: str, rows: str, columns: str) -> list[str]:
    """Return C conditions on the shape of a borrowed array."""
    return [f"{dim(name, 0)} == {rows}", f"{dim(name, 1)} == {columns}"]


class SampleOp(AutoregressiveOp):
    """Draw ``repeats`` samples for each row; inputs: base, more arrays, repeats, seed, counter."""

    __props__ = ("wants_residual",)
    counts = (-3,)

    def __init__(self, wants_residual: bool) -> None:
        self.wants_residual = wants_residual

    def make_node(self, *inputs) -> Apply:
        """Return a node with outputs sample, log-probability and, where asked for, residual."""
        arrays = [T.as_tensor_variable(v) for v in inputs[:-3]]
        integers = [T.cast(T.as_tensor_variable(v), "int64") for v in inputs[-3:]]
        dtype = arrays[0].dtype
        outputs = [T.matrix(dtype=dtype), T.vector(dtype=dtype)]
        if self.wants_residual:
            outputs.append(T.matrix(dtype=dtype))
        return Apply(self, arrays + integers, outputs)

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        *arrays, repeats, seed, counter = inputs
        rows = [np.repeat(v, int(repeats), axis=0) for v in arrays[: self.per_row]]
        u = uniform(int(seed), int(counter), *rows[0].shape)
        sample, logits = self.pass_over_units(*rows, *arrays[self.per_row :], u=u)
        storage[0][0] = sample
        storage[1][0] = row_log_probability(sample, logits)
        if self.wants_residual:
            storage[2][0] = (sigmoid(logits) - sample).astype(rows[0].dtype)

    def infer_shape(self, *arguments) -> list[tuple]:
        """Rows are those of ``base`` times repeats."""
        node, shapes = arguments[-2:]
        rows, units = shapes[0][0] * node.inputs[-3], shapes[0][1]
        return [(rows, units), (rows,), (rows, units)][: len(node.outputs)]

    def c_sample(
        self, inputs: list[str], outputs: list[str], call: str, fits: list[str], fail: str
    ) -> str:
        """Return the C code around ``call``, which draws the layer."""
        base, repeats = inputs[0], inputs[-3]
        sizes = f"""const npy_intp n = {dim(base, 0)}, units = {dim(base, 1)},
                repeats = bihm::whole({repeats}), rows = n * repeats;"""
        fits = [
            "repeats > 0",
            *fits,
            f"bihm::prepare(&{outputs[0]}, 2, rows, units)",
            f"bihm::prepare(&{outputs[1]}, 1, rows, 0)",
        ]
        if self.wants_residual:
            fits.append(f"bihm::prepare(&{outputs[2]}, 2, rows, units)")
        return self.c_body(inputs[:-3], sizes, fits, call, fail)


class ScoreOp(AutoregressiveOp):
    """Score values; inputs: values, base, further arrays.

    The number of rows is the larger of those of values and base, a multiple of both.
    """

    __props__ = ("wants_residual",)

    def __init__(self, wants_residual: bool) -> None:
        self.wants_residual = wants_residual

    def make_node(self, *inputs) -> Apply:
        """Return a node with outputs log-probability and, where asked for, residual."""
        arrays = [T.as_tensor_variable(v) for v in inputs]
        dtype = arrays[1].dtype
        outputs = [T.vector(dtype=dtype)]
        if self.wants_residual:
            outputs.append(T.matrix(dtype=dtype))
        return Apply(self, arrays, outputs)

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        last = 1 + self.per_row
        count = max(len(v) for v in inputs[:last])
        values, *rows = (np.repeat(v, count // len(v), axis=0) for v in inputs[:last])
        _, logits = self.pass_over_units(*rows, *inputs[last:], values=values)
        storage[0][0] = row_log_probability(values, logits)
        if self.wants_residual:
            storage[1][0] = (sigmoid(logits) - values).astype(rows[0].dtype)

    def infer_shape(self, *arguments) -> list[tuple]:
        """A row for each row of values or base, whichever has more."""
        node, shapes = arguments[-2:]
        rows = T.maximum(shapes[0][0], shapes[1][0])
        return [(rows,), (rows, shapes[0][1])][: len(node.outputs)]

    def c_score(
        self, inputs: list[str], outputs: list[str], call: str, fits: list[str], fail: str
    ) -> str:
        """Return the C code around ``call``, which scores the values."""
        values, base = inputs[:2]
        fits = [
            *ROWS_FIT,
            f"{dim(base, 1)} == units",
            *fits,
            f"bihm::prepare(&{outputs[0]}, 1, rows, 0)",
        ]
        if self.wants_residual:
            fits.append(f"bihm::prepare(&{outputs[1]}, 2, rows, units)")
        return self.c_body(inputs, row_sizes(values, base), fits, call, fail)


def row_sizes(values: str, base: str) -> str:
    """Define ``given``, ``n``, ``units`` and ``rows`` in C."""
    return f"""const npy_intp given = {dim(values, 0)}, n = {dim(base, 0)},
                units = {dim(values, 1)}, rows = std::max(given, n);"""


ROWS_FIT = ["given > 0", "n > 0", "rows % given == 0", "rows % n == 0"]

"""Layers whose units depend on those before them in the layer, fused: drawn or scored in a pass.

With v the units of the layer, ``base`` the share of the layer's inputs in the logits, and s the
logistic function,

    DARN    logit_i = base_i + sum_{k<i} v_k A_ki                    (Gregor et al., 2014)
    NADE    logit_i = base_i + V_i . s(start + sum_{k<i} v_k R_k)    (Larochelle and Murray, 2011)

A (units, units) is strictly upper triangular. R and V are (units, hidden): weights to and from
hidden units whose inputs begin with ``start``, the share of the layer's inputs. Drawing a layer is
sequential, and uses the random numbers of ``ops.bernoulli``. Residuals are s(logit) - v, the
derivative of -log-probability with respect to the logits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bihm_repro.engine.symbolic import Apply, T
from bihm_repro.ops.bernoulli import Sampled, Scored, row_log_probability
from bihm_repro.ops.fused import FusedOp
from bihm_repro.ops.numerics import sigmoid
from bihm_repro.ops.random_numbers import uniform

__all__ = [
    "NadeGradient",
    "SampleDarn",
    "SampleNade",
    "ScoreDarn",
    "ScoreNade",
    "nade_gradient",
    "sample_darn",
    "sample_nade",
    "score_darn",
    "score_nade",
]

_KERNELS = (Path(__file__).parent / "autoregressive.h").read_text(encoding="utf-8")


class _AutoregressiveOp(FusedOp):
    """What the Ops share: their kernels, and how C code gets at arrays and fails.

    per_row : how many of the arrays have a row for each row of the layer's inputs
    """

    per_row: int

    def c_support_code(self, **kwargs) -> str:
        """Return the kernels."""
        return super().c_support_code(**kwargs) + _KERNELS

    def outputs(self, names: list[str]) -> str:
        """Return C pointers to the outputs; the residual, the last, may be left out."""
        return _floats(*names) + ("" if self.wants_residual else ", NULL")

    def _c_body(self, arrays: list[str], sizes: str, fits: list[str], call: str, fail: str) -> str:
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


def _floats(*names: str) -> str:
    return ", ".join(f"bihm::floats({name})" for name in names)


def _dim(name: str, axis: int) -> str:
    return f"PyArray_DIMS(a_{name})[{axis}]"


def _has_shape(name: str, rows: str, columns: str) -> list[str]:
    return [f"{_dim(name, 0)} == {rows}", f"{_dim(name, 1)} == {columns}"]


class _SampleOp(_AutoregressiveOp):
    """Draw ``repeats`` samples for each row; inputs: base, further arrays, repeats, seed, draw."""

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
        *arrays, repeats, seed, draw = inputs
        rows = [np.repeat(v, int(repeats), axis=0) for v in arrays[: self.per_row]]
        u = uniform(int(seed), int(draw), *rows[0].shape)
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
        base, repeats = inputs[0], inputs[-3]
        sizes = f"""const npy_intp n = {_dim(base, 0)}, units = {_dim(base, 1)},
                repeats = bihm::whole({repeats}), rows = n * repeats;"""
        fits = [
            "repeats > 0",
            *fits,
            f"bihm::prepare(&{outputs[0]}, 2, rows, units)",
            f"bihm::prepare(&{outputs[1]}, 1, rows, 0)",
        ]
        if self.wants_residual:
            fits.append(f"bihm::prepare(&{outputs[2]}, 2, rows, units)")
        return self._c_body(inputs[:-3], sizes, fits, call, fail)


class _ScoreOp(_AutoregressiveOp):
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
        values, base = inputs[:2]
        fits = [
            *_ROWS_FIT,
            f"{_dim(base, 1)} == units",
            *fits,
            f"bihm::prepare(&{outputs[0]}, 1, rows, 0)",
        ]
        if self.wants_residual:
            fits.append(f"bihm::prepare(&{outputs[1]}, 2, rows, units)")
        return self._c_body(inputs, _row_sizes(values, base), fits, call, fail)


def _row_sizes(values: str, base: str) -> str:
    return f"""const npy_intp given = {_dim(values, 0)}, n = {_dim(base, 0)},
                units = {_dim(values, 1)}, rows = std::max(given, n);"""


_ROWS_FIT = ["given > 0", "n > 0", "rows % given == 0", "rows % n == 0"]


class _Darn(_AutoregressiveOp):
    """Arrays: base (n, units), then A (units, units)."""

    per_row = 1

    def pass_over_units(self, base, a, *, u=None, values=None) -> tuple[np.ndarray, np.ndarray]:
        """Return (values, logits); without ``values``, these are drawn from the uniform ``u``."""
        a = np.triu(a, 1)
        if values is not None:
            return values, base + values @ a
        logits, sample = base.copy(), np.zeros_like(base)
        for i in range(base.shape[1]):
            sample[:, i] = u[:, i] < sigmoid(logits[:, i])
            logits += sample[:, i, None] * a[i]
        return sample, logits


class _Nade(_AutoregressiveOp):
    """Arrays: base (n, units), start (n, hidden), then R and V (units, hidden)."""

    per_row = 2

    def pass_over_units(self, base, start, into, out, *, u=None, values=None) -> tuple:
        """Return (values, logits); without ``values``, these are drawn from the uniform ``u``."""
        logits, hidden = base.copy(), start.copy()
        sample = np.zeros_like(base) if values is None else values
        for i in range(base.shape[1]):
            logits[:, i] += sigmoid(hidden) @ out[i]
            if values is None:
                sample[:, i] = u[:, i] < sigmoid(logits[:, i])
            hidden += sample[:, i, None] * into[i]
        return sample, logits

    @staticmethod
    def shapes_fit(start: str, into: str, out: str) -> list[str]:
        """C conditions on the shapes of the arrays besides base."""
        hidden = _dim(start, 1)
        return [
            f"{_dim(start, 0)} == n",
            *_has_shape(into, "units", hidden),
            *_has_shape(out, "units", hidden),
        ]


class SampleDarn(_Darn, _SampleOp):
    """See ``sample_darn``."""

    def jax_form(self, base, a, repeats, seed, draw) -> tuple:
        """The same in JAX."""
        from bihm_repro.ops import jax_autoregressive

        return jax_autoregressive.sample_darn(
            base, a, repeats, seed, draw, wants_residual=self.wants_residual
        )

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        base, a, _, seed, draw = inputs
        call = f"""bihm::sample_darn({_floats(f"a_{base}", f"a_{a}")}, n, units, repeats,
            bihm::draw_key(bihm::whole({seed}), bihm::whole({draw})), {self.outputs(outputs)})"""
        return self.c_sample(inputs, outputs, call, _has_shape(a, "units", "units"), sub["fail"])


class SampleNade(_Nade, _SampleOp):
    """See ``sample_nade``."""

    def jax_form(self, *inputs) -> tuple:
        """The same in JAX."""
        from bihm_repro.ops import jax_autoregressive

        return jax_autoregressive.sample_nade(*inputs, wants_residual=self.wants_residual)

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        base, start, into, out, _, seed, draw = inputs
        arrays = _floats(*(f"a_{v}" for v in (base, start, into, out)))
        call = f"""bihm::nade(NULL, {arrays}, rows, 1, repeats, units, {_dim(start, 1)},
            bihm::draw_key(bihm::whole({seed}), bihm::whole({draw})), {self.outputs(outputs)})"""
        fits = self.shapes_fit(start, into, out)
        return self.c_sample(inputs, outputs, call, fits, sub["fail"])


class ScoreDarn(_Darn, _ScoreOp):
    """See ``score_darn``."""

    def jax_form(self, values, base, a):
        """The same in JAX."""
        from bihm_repro.ops import jax_autoregressive

        return jax_autoregressive.score_darn(values, base, a, self.wants_residual)

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        arrays = _floats(*(f"a_{v}" for v in inputs))
        call = f"""bihm::score_darn({arrays}, rows, rows / given, rows / n, units,
            {self.outputs(outputs)})"""
        fits = _has_shape(inputs[2], "units", "units")
        return self.c_score(inputs, outputs, call, fits, sub["fail"])


class ScoreNade(_Nade, _ScoreOp):
    """See ``score_nade``."""

    def jax_form(self, *inputs):
        """The same in JAX."""
        from bihm_repro.ops import jax_autoregressive

        return jax_autoregressive.score_nade(*inputs, wants_residual=self.wants_residual)

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        arrays = _floats(*(f"a_{v}" for v in inputs))
        call = f"""bihm::nade({arrays}, rows, rows / given, rows / n, units,
            {_dim(inputs[2], 1)}, bihm::Key{{0, 0}}, NULL, {self.outputs(outputs)})"""
        return self.c_score(inputs, outputs, call, self.shapes_fit(*inputs[2:]), sub["fail"])


class NadeGradient(_AutoregressiveOp):
    """See ``nade_gradient``."""

    def make_node(self, *inputs) -> Apply:
        """Inputs: values, start, R, V, derivatives."""
        arrays = [T.as_tensor_variable(v) for v in inputs]
        return Apply(self, arrays, [T.matrix(dtype=arrays[1].dtype) for _ in range(3)])

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        values, start, into, out, derivatives = inputs
        rows = len(derivatives)
        values, start = (np.repeat(v, rows // len(v), axis=0) for v in (values, start))
        into_gradient, out_gradient = np.zeros_like(into), np.zeros_like(out)
        hidden, back = start + values @ into, np.zeros_like(start)
        for i in reversed(range(values.shape[1])):
            hidden = hidden - values[:, i, None] * into[i]
            s, d = sigmoid(hidden), derivatives[:, i]
            into_gradient[i], out_gradient[i] = values[:, i] @ back, d @ s
            back = back + d[:, None] * out[i] * s * (1 - s)
        for cell, value in zip(storage, (into_gradient, out_gradient, back)):
            cell[0] = value.astype(start.dtype)

    def jax_form(self, *inputs) -> tuple:
        """The same in JAX."""
        from bihm_repro.ops import jax_autoregressive

        return jax_autoregressive.nade_gradient(*inputs)

    def infer_shape(self, *arguments) -> list[tuple]:
        """The shapes of R and V, and a row of hidden units for each row of derivatives."""
        _, start, into, out, derivatives = arguments[-1]
        return [into, out, (derivatives[0], start[1])]

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        values, start, into, out, derivatives = inputs
        sizes = f"{_row_sizes(values, start)} const npy_intp hidden = {_dim(start, 1)};"
        fits = [
            *_ROWS_FIT,
            *_has_shape(into, "units", "hidden"),
            *_has_shape(out, "units", "hidden"),
            *_has_shape(derivatives, "rows", "units"),
            *(f"bihm::prepare(&{v}, 2, units, hidden)" for v in outputs[:2]),
            f"bihm::prepare(&{outputs[2]}, 2, rows, hidden)",
        ]
        arrays = _floats(*(f"a_{v}" for v in inputs))
        call = f"""bihm::nade_gradient({arrays}, rows, rows / given, rows / n, units, hidden,
            {_floats(*outputs)})"""
        return self._c_body(inputs, sizes, fits, call, sub["fail"])


def sample_darn(base, a, *, repeats=1, seed, draw, wants_residual: bool = False) -> Sampled:
    """Draw a DARN layer.

    Parameters
    ----------
    base : (n, units)
    a : (units, units), strictly upper triangular
    repeats : samples for each row of ``base``; row ``i`` gives rows ``i * repeats ...``
    seed, draw : which random numbers; see ``random_numbers``
    """
    return _sampled(SampleDarn(wants_residual)(base, a, repeats, seed, draw))


def score_darn(values, base, a, *, wants_residual: bool = False) -> Scored:
    """Log-probabilities of ``values`` (n, units) under a DARN layer.

    Where one of ``values`` and ``base`` has fewer rows, each of its rows serves as many of the
    other's, next to each other.
    """
    return _scored(ScoreDarn(wants_residual)(values, base, a), wants_residual)


def sample_nade(
    base, start, into, out, *, repeats=1, seed, draw, wants_residual: bool = False
) -> Sampled:
    """Draw a NADE layer.

    Parameters
    ----------
    base, start : (n, units) and (n, hidden)
    into, out : R and V, (units, hidden)
    repeats, seed, draw : as in ``sample_darn``
    """
    op = SampleNade(wants_residual)
    return _sampled(op(base, start, into, out, repeats, seed, draw))


def score_nade(values, base, start, into, out, *, wants_residual: bool = False) -> Scored:
    """Log-probabilities of ``values`` (n, units) under a NADE layer; rows as in ``score_darn``."""
    return _scored(ScoreNade(wants_residual)(values, base, start, into, out), wants_residual)


def nade_gradient(values, start, into, out, derivatives) -> tuple:
    """Return gradients with respect to R, V, and each row's ``start``, (rows, hidden).

    ``derivatives`` (rows, units) are those with respect to the logits of ``values``.
    """
    return tuple(NadeGradient()(values, start, into, out, derivatives))


def _sampled(outputs: list) -> Sampled:
    return Sampled(*outputs) if len(outputs) == 3 else Sampled(outputs[0], outputs[1], None)


def _scored(outputs: Any, wants_residual: bool) -> Scored:
    return Scored(*outputs) if wants_residual else Scored(outputs, None)

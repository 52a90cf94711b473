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

from typing import Any

import numpy as np

from bihm_repro.engine.symbolic import Apply, T
from bihm_repro.ops.autoregressive_op import (
    ROWS_FIT,
    AutoregressiveOp,
    SampleOp,
    ScoreOp,
    dim,
    floats,
    has_shape,
    row_sizes,
)
from bihm_repro.ops.bernoulli import Sampled, Scored
from bihm_repro.ops.numerics import sigmoid

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


class _Darn(AutoregressiveOp):
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


class _Nade(AutoregressiveOp):
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
        hidden = dim(start, 1)
        return [
            f"{dim(start, 0)} == n",
            *has_shape(into, "units", hidden),
            *has_shape(out, "units", hidden),
        ]


class SampleDarn(_Darn, SampleOp):
    """See ``sample_darn``."""

    def jax_form(self, base, a, repeats, seed, counter) -> tuple:
        """The same in JAX."""
        from bihm_repro.ops import jax_autoregressive

        return jax_autoregressive.sample_darn(
            base, a, repeats, seed, counter, wants_residual=self.wants_residual
        )

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        base, a, _, seed, counter = inputs
        call = f"""bihm::sample_darn({floats(f"a_{base}", f"a_{a}")}, n, units, repeats,
            bihm::draw_key(bihm::whole({seed}), bihm::whole({counter})), {self.outputs(outputs)})"""
        return self.c_sample(inputs, outputs, call, has_shape(a, "units", "units"), sub["fail"])


class SampleNade(_Nade, SampleOp):
    """See ``sample_nade``."""

    def jax_form(self, *inputs) -> tuple:
        """The same in JAX."""
        from bihm_repro.ops import jax_autoregressive

        return jax_autoregressive.sample_nade(*inputs, wants_residual=self.wants_residual)

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        base, start, into, out, _, seed, counter = inputs
        arrays = floats(*(f"a_{v}" for v in (base, start, into, out)))
        call = f"""bihm::nade(NULL, {arrays}, rows, 1, repeats, units, {dim(start, 1)},
            bihm::draw_key(bihm::whole({seed}), bihm::whole({counter})), {self.outputs(outputs)})"""
        fits = self.shapes_fit(start, into, out)
        return self.c_sample(inputs, outputs, call, fits, sub["fail"])


class ScoreDarn(_Darn, ScoreOp):
    """See ``score_darn``."""

    def jax_form(self, values, base, a):
        """The same in JAX."""
        from bihm_repro.ops import jax_autoregressive

        return jax_autoregressive.score_darn(values, base, a, self.wants_residual)

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        arrays = floats(*(f"a_{v}" for v in inputs))
        call = f"""bihm::score_darn({arrays}, rows, rows / given, rows / n, units,
            {self.outputs(outputs)})"""
        fits = has_shape(inputs[2], "units", "units")
        return self.c_score(inputs, outputs, call, fits, sub["fail"])


class ScoreNade(_Nade, ScoreOp):
    """See ``score_nade``."""

    def jax_form(self, *inputs):
        """The same in JAX."""
        from bihm_repro.ops import jax_autoregressive

        return jax_autoregressive.score_nade(*inputs, wants_residual=self.wants_residual)

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        arrays = floats(*(f"a_{v}" for v in inputs))
        call = f"""bihm::nade({arrays}, rows, rows / given, rows / n, units,
            {dim(inputs[2], 1)}, bihm::Key{{0, 0}}, NULL, {self.outputs(outputs)})"""
        return self.c_score(inputs, outputs, call, self.shapes_fit(*inputs[2:]), sub["fail"])


class NadeGradient(AutoregressiveOp):
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
        sizes = f"{row_sizes(values, start)} const npy_intp hidden = {dim(start, 1)};"
        fits = [
            *ROWS_FIT,
            *has_shape(into, "units", "hidden"),
            *has_shape(out, "units", "hidden"),
            *has_shape(derivatives, "rows", "units"),
            *(f"bihm::prepare(&{v}, 2, units, hidden)" for v in outputs[:2]),
            f"bihm::prepare(&{outputs[2]}, 2, rows, hidden)",
        ]
        arrays = floats(*(f"a_{v}" for v in inputs))
        call = f"""bihm::nade_gradient({arrays}, rows, rows / given, rows / n, units, hidden,
            {floats(*outputs)})"""
        return self.c_body(inputs, sizes, fits, call, sub["fail"])


def sample_darn(base, a, *, repeats=1, seed, counter, wants_residual: bool = False) -> Sampled:
    """Draw a DARN layer.

    Parameters
    ----------
    base : (n, units)
    a : (units, units), strictly upper triangular
    repeats : samples for each row of ``base``; row ``i`` gives rows ``i * repeats ...``
    seed, counter : which random numbers; see ``random_numbers``
    """
    return _sampled(SampleDarn(wants_residual)(base, a, repeats, seed, counter))


def score_darn(values, base, a, *, wants_residual: bool = False) -> Scored:
    """Log-probabilities of ``values`` (n, units) under a DARN layer.

    Where one of ``values`` and ``base`` has fewer rows, each of its rows serves as many of the
    other's, next to each other.
    """
    return _scored(ScoreDarn(wants_residual)(values, base, a), wants_residual)


def sample_nade(
    base, start, into, out, *, repeats=1, seed, counter, wants_residual: bool = False
) -> Sampled:
    """Draw a NADE layer.

    Parameters
    ----------
    base, start : (n, units) and (n, hidden)
    into, out : R and V, (units, hidden)
    repeats, seed, counter : as in ``sample_darn``
    """
    op = SampleNade(wants_residual)
    return _sampled(op(base, start, into, out, repeats, seed, counter))


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

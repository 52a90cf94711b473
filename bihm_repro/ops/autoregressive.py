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

from bihm_repro.engine.symbolic import T
from bihm_repro.ops.bernoulli import Sampled, Scored, row_log_probability
from bihm_repro.ops.fused import SAMPLING, FusedOp
from bihm_repro.ops.numerics import sigmoid
from bihm_repro.ops.random_numbers import uniform

__all__ = ["nade_gradient", "sample_darn", "sample_nade", "score_darn", "score_nade"]


class _Darn(FusedOp):
    """``per_row`` of the arrays have a row for each row of the layer's inputs."""

    kernels, per_row = "autoregressive.h", 1

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


class _Nade(FusedOp):
    """As ``_Darn``."""

    kernels, per_row = "autoregressive.h", 2

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


class _Sample(FusedOp):
    """Draw ``repeats`` samples for each row; inputs: base, more arrays, repeats, seed, counter."""

    __props__ = ("residual",)
    integers, counts = SAMPLING, (-3,)
    outputs = {"sample": ("rows", "units"), "log_q": ("rows",), "residual": ("rows", "units")}
    sizes = "const npy_intp n = DIM(base, 0), units = DIM(base, 1), rows = n * repeats;"

    def reference(self, *inputs) -> tuple:
        *arrays, repeats, seed, counter = inputs
        rows = [np.repeat(v, int(repeats), axis=0) for v in arrays[: self.per_row]]
        u = uniform(int(seed), int(counter), *rows[0].shape)
        sample, logits = self.pass_over_units(*rows, *arrays[self.per_row :], u=u)
        found = sample, row_log_probability(sample, logits)
        return (*found, sigmoid(logits) - sample) if self.residual else found

    def infer_shape(self, *arguments) -> list[tuple]:
        node, shapes = arguments[-2:]
        rows, units = shapes[0][0] * node.inputs[-3], shapes[0][1]
        return [(rows, units), (rows,), (rows, units)][: len(node.outputs)]


_ROWS = """const npy_intp given = DIM(values, 0), units = DIM(values, 1), n = {0},
                rows = std::max(given, n);"""
_ROWS_FIT = "given > 0 && n > 0 && rows % given == 0 && rows % n == 0 && "
_NADE_FITS = """DIM(into, 0) == units && DIM(out, 0) == units && DIM(into, 1) == DIM(start, 1) &&
                DIM(out, 1) == DIM(start, 1)"""


class _Score(FusedOp):
    """Score values; inputs: values, base, further arrays.

    The number of rows is the larger of those of values and base, a multiple of both.
    """

    __props__, like = ("residual",), 1
    outputs = {"log_p": ("rows",), "residual": ("rows", "units")}
    sizes = _ROWS.format("DIM(base, 0)")

    def reference(self, *inputs) -> tuple:
        last = 1 + self.per_row
        count = max(len(v) for v in inputs[:last])
        values, *rows = (np.repeat(v, count // len(v), axis=0) for v in inputs[:last])
        _, logits = self.pass_over_units(*rows, *inputs[last:], values=values)
        log_p = row_log_probability(values, logits)
        return (log_p, sigmoid(logits) - values) if self.residual else (log_p,)

    def infer_shape(self, *arguments) -> list[tuple]:
        node, shapes = arguments[-2:]
        rows = T.maximum(shapes[0][0], shapes[1][0])
        return [(rows,), (rows, shapes[0][1])][: len(node.outputs)]


class SampleDarn(_Darn, _Sample):
    """See ``sample_darn``."""

    arrays, jax_name = ("base", "a"), "sample_darn"
    fits = "repeats > 0 && DIM(a, 0) == units && DIM(a, 1) == units"
    call = """bihm::sample_darn(base, a, n, units, repeats, bihm::counter_key(seed, counter),
                    sample, log_q, residual)"""


class SampleNade(_Nade, _Sample):
    """See ``sample_nade``."""

    arrays, jax_name = ("base", "start", "into", "out"), "sample_nade"
    fits = f"repeats > 0 && DIM(start, 0) == n && {_NADE_FITS}"
    call = """bihm::nade(nullptr, base, start, into, out, rows, 1, repeats, units,
                    DIM(start, 1), bihm::counter_key(seed, counter), sample, log_q, residual)"""


class ScoreDarn(_Darn, _Score):
    """See ``score_darn``."""

    arrays, jax_name = ("values", "base", "a"), "score_darn"
    fits = f"{_ROWS_FIT} DIM(base, 1) == units && DIM(a, 0) == units && DIM(a, 1) == units"
    call = """bihm::score_darn(values, base, a, rows, rows / given, rows / n, units, log_p,
                    residual)"""


class ScoreNade(_Nade, _Score):
    """See ``score_nade``."""

    arrays, jax_name = ("values", "base", "start", "into", "out"), "score_nade"
    fits = f"{_ROWS_FIT} DIM(base, 1) == units && DIM(start, 0) == n && {_NADE_FITS}"
    call = """bihm::nade(values, base, start, into, out, rows, rows / given, rows / n, units,
                    DIM(start, 1), bihm::Key{0, 0}, nullptr, log_p, residual)"""


class NadeGradient(FusedOp):
    """See ``nade_gradient``."""

    arrays, like = ("values", "start", "into", "out", "derivatives"), 1
    outputs = {
        "into_gradient": ("units", "DIM(start, 1)"),
        "out_gradient": ("units", "DIM(start, 1)"),
        "back": ("rows", "DIM(start, 1)"),
    }
    kernels, sizes = "autoregressive.h", _ROWS.format("DIM(start, 0)")
    fits = f"""{_ROWS_FIT} {_NADE_FITS} && DIM(derivatives, 0) == rows &&
                DIM(derivatives, 1) == units"""
    call = """bihm::nade_gradient(values, start, into, out, derivatives, rows, rows / given,
                    rows / n, units, DIM(start, 1), into_gradient, out_gradient, back)"""
    jax_name = "nade_gradient"

    def reference(self, values, start, into, out, derivatives) -> tuple:
        rows = len(derivatives)
        values, start = (np.repeat(v, rows // len(v), axis=0) for v in (values, start))
        into_gradient, out_gradient = np.zeros_like(into), np.zeros_like(out)
        hidden, back = start + values @ into, np.zeros_like(start)
        for i in reversed(range(values.shape[1])):
            hidden = hidden - values[:, i, None] * into[i]
            s, d = sigmoid(hidden), derivatives[:, i]
            into_gradient[i], out_gradient[i] = values[:, i] @ back, d @ s
            back = back + d[:, None] * out[i] * s * (1 - s)
        return into_gradient, out_gradient, back

    def infer_shape(self, *arguments) -> list[tuple]:
        _, start, into, out, derivatives = arguments[-1]
        return [into, out, (derivatives[0], start[1])]


def sample_darn(
    base: Any, a: Any, *, repeats: Any = 1, seed: Any, counter: Any, residual: bool = False
) -> Sampled:
    """Draw a DARN layer.

    Parameters
    ----------
    base : (n, units)
    a : (units, units), strictly upper triangular
    repeats : samples for each row of ``base``; row ``i`` gives rows ``i * repeats ...``
    seed, counter : which random numbers; see ``random_numbers``
    """
    return Sampled(*SampleDarn(residual)(base, a, repeats, seed, counter))


def score_darn(values: Any, base: Any, a: Any, *, residual: bool = False) -> Scored:
    """Log-probabilities of ``values`` (n, units) under a DARN layer.

    Where one of ``values`` and ``base`` has fewer rows, each of its rows serves as many of the
    other's, next to each other.
    """
    return Scored(*ScoreDarn(residual)(values, base, a, return_list=True))


def sample_nade(
    base: Any,
    start: Any,
    into: Any,
    out: Any,
    *,
    repeats: Any = 1,
    seed: Any,
    counter: Any,
    residual: bool = False,
) -> Sampled:
    """Draw a NADE layer; the rest is as in ``sample_darn``.

    ``base`` and ``start`` are (n, units) and (n, hidden), ``into`` and ``out`` R and V.
    """
    return Sampled(*SampleNade(residual)(base, start, into, out, repeats, seed, counter))


def score_nade(
    values: Any, base: Any, start: Any, into: Any, out: Any, *, residual: bool = False
) -> Scored:
    """Log-probabilities of ``values`` (n, units) under a NADE layer; rows as in ``score_darn``."""
    return Scored(*ScoreNade(residual)(values, base, start, into, out, return_list=True))


def nade_gradient(values: Any, start: Any, into: Any, out: Any, derivatives: Any) -> tuple:
    """Return gradients with respect to R, V, and each row's ``start``, (rows, hidden).

    ``derivatives`` (rows, units) are those with respect to the logits of ``values``.
    """
    return tuple(NadeGradient()(values, start, into, out, derivatives))

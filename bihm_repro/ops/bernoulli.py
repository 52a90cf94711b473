"""Bernoulli layers, fused: draw a layer, or score given values, in one pass.

A layer's logits are ``x W + b`` (with weights, the product is made block by block inside the Op)
or are given. With s the logistic function,

``sample_layer``   h ~ B(s(logits)); log q(h) = sum_j h_j l_j - softplus(l_j); residual s(l) - h
``score_layer``    the same sum and residual for values that are given

The residual is the derivative of -log q with respect to the logits: all that the gradients of
Algorithm 1 need of a layer, since samples count as observed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bihm_repro.ops.fused import SAMPLING, FusedOp
from bihm_repro.ops.numerics import sigmoid
from bihm_repro.ops.random_numbers import uniform

__all__ = ["Sampled", "Scored", "row_log_probability", "sample_layer", "score_layer"]


class Sampled(NamedTuple):
    """A drawn layer; where asked for, the residual (rows, units) and the mean (inputs, units)."""

    sample: Any
    log_q: Any
    residual: Any = None
    mean: Any = None


class Scored(NamedTuple):
    """Row log-probabilities of given values and, where asked for, the residual."""

    log_p: Any
    residual: Any = None


def row_log_probability(values: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Sum over units of v l - softplus(l), shape ``(rows,)``, added up in float64."""
    terms = values * logits - np.maximum(logits, 0) - np.log1p(np.exp(-np.abs(logits)))
    return terms.sum(axis=1, dtype=np.float64)


def _logits(x: np.ndarray, weights: np.ndarray | None = None, bias: Any = 0) -> np.ndarray:
    return x if weights is None else x @ weights + bias


class SampleLayer(FusedOp):
    """See ``sample_layer``; inputs: x, weights, bias or logits, then repeats, seed, counter."""

    __props__ = ("residual", "mean")
    arrays, integers, counts = ("x", "weights", "bias"), SAMPLING, (-3,)
    outputs = {
        "sample": ("rows", "units"),
        "log_q": ("rows",),
        "residual": ("rows", "units"),
        "mean": ("n", "units"),
    }
    sizes = """const npy_intp n = DIM(x, 0), inputs = DIM(x, 1), rows = n * repeats,
                units = weights ? DIM(weights, 1) : inputs;"""
    fits = """repeats > 0 &&
                (!weights || (DIM(weights, 0) == inputs && DIM(bias, 0) == units))"""
    call = """bihm::sample_layer(x, weights, bias, n, inputs, units, repeats,
                    bihm::counter_key(seed, counter), sample, log_q, residual, mean)"""
    jax_name = "sample_layer"

    def reference(self, *inputs) -> tuple:
        *arrays, repeats, seed, counter = inputs
        logits = _logits(*arrays)
        rows = np.repeat(logits, int(repeats), axis=0)
        mean = sigmoid(rows)
        sample = (uniform(int(seed), int(counter), *rows.shape) < mean).astype(logits.dtype)
        found = [sample, row_log_probability(sample, rows)]
        found += [mean - sample] if self.residual else []
        return tuple(found + [sigmoid(logits)] if self.mean else found)

    def infer_shape(self, *arguments) -> list[tuple]:
        node, shapes = arguments[-2:]
        n, units = shapes[0][0], shapes[len(shapes) > 4][1]
        rows = n * node.inputs[-3]
        found = {"sample": (rows, units), "log_q": (rows,), "residual": (rows, units)}
        found["mean"] = (n, units)
        return [found[name] for name in self.present()]


class ScoreLayer(FusedOp):
    """See ``score_layer``; inputs: values, then h, weights, bias or logits."""

    __props__ = ("residual",)
    arrays, like = ("values", "h", "weights", "bias"), 1
    outputs = {"log_p": ("n",), "residual": ("n", "units")}
    sizes = """const npy_intp n = DIM(h, 0), inputs = DIM(h, 1), given = DIM(values, 0),
                units = DIM(values, 1);"""
    fits = """given > 0 && n % given == 0 && (weights ? DIM(weights, 0) == inputs &&
                DIM(weights, 1) == units && DIM(bias, 0) == units : inputs == units)"""
    call = """bihm::score_layer(values, h, weights, bias, n, inputs, units, n / given, log_p,
                    residual)"""
    jax_name = "score_layer"

    def reference(self, values, *arrays) -> tuple:
        logits = _logits(*arrays)
        values = np.repeat(values, len(logits) // len(values), axis=0)
        log_p = row_log_probability(values, logits)
        return (log_p, sigmoid(logits) - values) if self.residual else (log_p,)

    def infer_shape(self, *arguments) -> list[tuple]:
        values, h = arguments[-1][:2]
        return [(h[0],), (h[0], values[1])][: len(self.present())]


def sample_layer(
    x: Any,
    weights: Any = None,
    bias: Any = None,
    *,
    repeats: Any = 1,
    seed: Any,
    counter: Any,
    residual: bool = False,
    mean: bool = False,
) -> Sampled:
    """Draw a Bernoulli layer.

    Parameters
    ----------
    x : (n, inputs), or the logits (n, units) where no weights are given
    weights, bias : (inputs, units) and (units,)
    repeats : samples drawn for each row of ``x``; row ``i`` gives rows ``i * repeats ...``
    seed, counter : which random numbers; see ``random_numbers``
    residual, mean : whether to return s(l) - h (n * repeats, units), and s(l) (n, units)
    """
    arrays = (x,) if weights is None else (x, weights, bias)
    op = SampleLayer(residual, mean)
    return Sampled(**dict(zip(op.present(), op(*arrays, repeats, seed, counter))))


def score_layer(
    values: Any, h: Any, weights: Any = None, bias: Any = None, *, residual: bool = False
) -> Scored:
    """Log-probability of ``values`` under a Bernoulli layer.

    Parameters
    ----------
    values : (n, units), in [0, 1]; where n divides the rows of h, each serves as many rows of h
    h : (rows, inputs), or the logits (rows, units) where no weights are given
    """
    arrays = (h,) if weights is None else (h, weights, bias)
    return Scored(*ScoreLayer(residual)(values, *arrays, return_list=True))

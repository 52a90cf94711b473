"""Bernoulli layers, fused: draw a layer, or score given values, in one pass.

A layer's logits are ``x W + b`` (with weights, the product is made block by block inside the Op)
or are given. With s the logistic function,

``sample_layer``   h ~ B(s(logits)); log q(h) = sum_j h_j l_j - softplus(l_j); residual s(l) - h
``score_layer``    the same sum and residual for values that are given

The residual is the derivative of -log q with respect to the logits: all that the gradients of
Algorithm 1 need of a layer, since samples count as observed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bihm_repro.engine.symbolic import Apply, T
from bihm_repro.ops.fused import FusedOp
from bihm_repro.ops.numerics import sigmoid
from bihm_repro.ops.random_numbers import uniform

__all__ = [
    "Sampled",
    "Scored",
    "sample_layer",
    "score_layer",
    "SampleLayer",
    "ScoreLayer",
    "row_log_probability",
]


class Sampled(NamedTuple):
    """A drawn layer; ``extra`` is the residual (rows, units), the mean (inputs, units) or None."""

    sample: object
    log_q: object
    extra: object


class Scored(NamedTuple):
    """Scored values: row log-probabilities and, where asked for, the residual."""

    log_p: object
    residual: object


def row_log_probability(values: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Sum over units of v l - softplus(l), shape ``(rows,)``, added up in float64."""
    terms = values * logits - np.maximum(logits, 0) - np.log1p(np.exp(-np.abs(logits)))
    return terms.sum(axis=1, dtype=np.float64).astype(logits.dtype)


class _LayerOp(FusedOp):
    """A layer that makes its logits from inputs, weights and bias, or is given them."""

    def _logits(self, arrays: list[np.ndarray]) -> np.ndarray:
        if not self.affine:
            return arrays[0]
        x, weights, bias = arrays
        return x @ weights + bias

    def _pointers(self, names: list[str]) -> tuple[str, ...]:
        """C expressions for inputs, weights, bias."""
        if self.affine:
            return tuple(f"bihm::floats(a_{name})" for name in names)
        return f"bihm::floats(a_{names[0]})", "NULL", "NULL"


def _borrow(names: list[str], fail: str) -> str:
    return "".join(
        f"PyArrayObject* a_{n} = bihm::row_major({n});\nif (!a_{n}) {{ {fail} }}\n" for n in names
    )


def _give_back(names: list[str]) -> str:
    return "".join(f"Py_XDECREF(a_{n});\n" for n in names)


class SampleLayer(_LayerOp):
    """Draw ``repeats`` samples for each row of inputs; see ``sample_layer``."""

    __props__ = ("affine", "wants")
    counts = (-3,)

    def __init__(self, affine: bool, wants: str) -> None:
        self.affine, self.wants = affine, wants

    def make_node(self, *inputs) -> Apply:
        """Inputs: (x, W, b) or (logits), then repeats, seed, counter."""
        arrays = [T.as_tensor_variable(v) for v in inputs[:-3]]
        integers = [T.cast(T.as_tensor_variable(v), "int64") for v in inputs[-3:]]
        dtype = arrays[0].dtype
        outputs = [T.matrix(dtype=dtype), T.vector(dtype=dtype)]
        if self.wants != "nothing":
            outputs.append(T.matrix(dtype=dtype))
        return Apply(self, arrays + integers, outputs)

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        *arrays, repeats, seed, counter = inputs
        logits = self._logits(arrays)
        rows = np.repeat(logits, int(repeats), axis=0)
        mean = sigmoid(rows)
        u = uniform(int(seed), int(counter), *rows.shape)
        sample = (u < mean).astype(logits.dtype)
        storage[0][0] = sample
        storage[1][0] = row_log_probability(sample, rows)
        if self.wants == "residual":
            storage[2][0] = (mean - sample).astype(logits.dtype)
        elif self.wants == "mean":
            storage[2][0] = sigmoid(logits).astype(logits.dtype)

    def jax_form(self, *inputs) -> tuple:
        """The same in JAX; ``repeats`` has to be known when the graph is compiled."""
        from bihm_repro.ops import jax_forms

        *arrays, repeats, seed, counter = inputs
        return jax_forms.sample_layer(tuple(arrays), repeats, seed, counter, self.wants)

    def infer_shape(self, *arguments) -> list[tuple]:
        """Rows are inputs times repeats; units come from the weights."""
        node, shapes = arguments[-2:]
        rows = shapes[0][0] * node.inputs[-3]
        units = shapes[1][1] if self.affine else shapes[0][1]
        return [
            (rows, units),
            (rows,),
            (rows if self.wants == "residual" else shapes[0][0], units),
        ][: len(node.outputs)]

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        *arrays, repeats, seed, counter = inputs
        x, weights, bias = self._pointers(arrays)
        units = arrays[1] if self.affine else arrays[0]
        residual = f"bihm::floats({outputs[2]})" if self.wants == "residual" else "NULL"
        mean = f"bihm::floats({outputs[2]})" if self.wants == "mean" else "NULL"
        extra = "true"
        if self.wants != "nothing":
            rows = "n * repeats" if self.wants == "residual" else "n"
            extra = f"bihm::prepare(&{outputs[2]}, 2, {rows}, units)"
        return f"""
        {{
        {_borrow(arrays, sub["fail"])}
        const npy_intp n = PyArray_DIMS({arrays[0]})[0], inputs = PyArray_DIMS({arrays[0]})[1];
        const npy_intp units = PyArray_DIMS({units})[1], repeats = bihm::whole({repeats});
        bool ok = repeats > 0 && bihm::prepare(&{outputs[0]}, 2, n * repeats, units) &&
            bihm::prepare(&{outputs[1]}, 1, n * repeats, 0) && {extra};
        {_check_shapes(arrays) if self.affine else ""}
        if (ok) {{
            Py_BEGIN_ALLOW_THREADS
            ok = bihm::sample_layer({x}, {weights}, {bias}, n, inputs, units, repeats,
                bihm::draw_key(bihm::whole({seed}), bihm::whole({counter})),
                bihm::floats({outputs[0]}), bihm::floats({outputs[1]}), {residual}, {mean});
            Py_END_ALLOW_THREADS
        }}
        {_give_back(arrays)}
        if (!ok) {{
            bihm::complain("SampleLayer: shapes do not fit, or no memory");
            {sub["fail"]}
        }}
        }}
        """


class ScoreLayer(_LayerOp):
    """Score given values under a layer; see ``score_layer``."""

    __props__ = ("affine", "wants_residual")

    def __init__(self, affine: bool, wants_residual: bool) -> None:
        self.affine, self.wants_residual = affine, wants_residual

    def make_node(self, values, *arrays) -> Apply:
        """Inputs: values, then (h, W, b) or (logits)."""
        inputs = [T.as_tensor_variable(v) for v in (values, *arrays)]
        dtype = inputs[1].dtype
        outputs = [T.vector(dtype=dtype)]
        if self.wants_residual:
            outputs.append(T.matrix(dtype=dtype))
        return Apply(self, inputs, outputs)

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        values, *arrays = inputs
        logits = self._logits(arrays)
        repeated = np.repeat(values, len(logits) // len(values), axis=0)
        storage[0][0] = row_log_probability(repeated, logits)
        if self.wants_residual:
            storage[1][0] = (sigmoid(logits) - repeated).astype(logits.dtype)

    def jax_form(self, values, *arrays):
        """The same in JAX."""
        from bihm_repro.ops import jax_forms

        return jax_forms.score_layer(values, arrays, self.wants_residual)

    def infer_shape(self, *arguments) -> list[tuple]:
        """A row for each row of h."""
        node, shapes = arguments[-2:]
        return [(shapes[1][0],), (shapes[1][0], shapes[0][1])][: len(node.outputs)]

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel on row-major arrays."""
        self.require_float32(node)
        values, *arrays = inputs
        h, weights, bias = self._pointers(arrays)
        residual = f"bihm::floats({outputs[1]})" if self.wants_residual else "NULL"
        extra = f"bihm::prepare(&{outputs[1]}, 2, n, units)" if self.wants_residual else "true"
        return f"""
        {{
        {_borrow(inputs, sub["fail"])}
        const npy_intp n = PyArray_DIMS({arrays[0]})[0], inputs = PyArray_DIMS({arrays[0]})[1];
        const npy_intp units = PyArray_DIMS({values})[1], rows = PyArray_DIMS({values})[0];
        bool ok = rows > 0 && n % rows == 0 && bihm::prepare(&{outputs[0]}, 1, n, 0) && {extra};
        ok = ok && PyArray_DIMS({arrays[1] if self.affine else arrays[0]})[1] == units;
        {_check_shapes(arrays) if self.affine else ""}
        if (ok) {{
            Py_BEGIN_ALLOW_THREADS
            ok = bihm::score_layer(bihm::floats(a_{values}), {h}, {weights}, {bias}, n, inputs,
                units, n / rows, bihm::floats({outputs[0]}), {residual});
            Py_END_ALLOW_THREADS
        }}
        {_give_back(inputs)}
        if (!ok) {{
            bihm::complain("ScoreLayer: shapes do not fit, or no memory");
            {sub["fail"]}
        }}
        }}
        """


def _check_shapes(arrays: list[str]) -> str:
    x, weights, bias = arrays
    return (
        f"ok = ok && PyArray_DIMS({weights})[0] == PyArray_DIMS({x})[1] && "
        f"PyArray_DIMS({bias})[0] == PyArray_DIMS({weights})[1];"
    )


def sample_layer(
    x, weights=None, bias=None, *, repeats=1, seed, counter, wants: str = "nothing"
) -> Sampled:
    """Draw a Bernoulli layer.

    Parameters
    ----------
    x : (n, inputs), or the logits (n, units) where no weights are given
    weights, bias : (inputs, units) and (units,)
    repeats : samples drawn for each row of ``x``; row ``i`` gives rows ``i * repeats ...``
    seed, counter : which random numbers; see ``random_numbers``
    wants : ``"residual"`` (n * repeats, units), ``"mean"`` (n, units) or ``"nothing"``
    """
    affine = weights is not None
    arrays = (x, weights, bias) if affine else (x,)
    outputs = SampleLayer(affine, wants)(*arrays, repeats, seed, counter)
    return Sampled(outputs[0], outputs[1], outputs[2] if wants != "nothing" else None)


def score_layer(values, h, weights=None, bias=None, *, wants_residual: bool = False) -> Scored:
    """Log-probability of ``values`` under a Bernoulli layer.

    Parameters
    ----------
    values : (n, units), in [0, 1]; where n divides the rows of h, each serves as many rows of h
    h : (rows, inputs), or the logits (rows, units) where no weights are given
    """
    affine = weights is not None
    arrays = (h, weights, bias) if affine else (h,)
    outputs = ScoreLayer(affine, wants_residual)(values, *arrays)
    return Scored(*outputs) if wants_residual else Scored(outputs, None)

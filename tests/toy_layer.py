"""A plugin with a layer type: ``chain``, whose units depend on the unit before them.

p(h_j = 1 | x, h_{j-1}) = logistic((x W + b)_j + c_j h_{j-1}), h_{-1} = 0
"""

from __future__ import annotations

import numpy as np

from bihm_repro.bricks.base import BIAS
from bihm_repro.bricks.layer import Layer, Sample, Score
from bihm_repro.bricks.numpy_layer import Conditional, NumpyLayer, array_of, linear
from bihm_repro.bricks.registry import register
from bihm_repro.engine.symbolic import T
from bihm_repro.ops.bernoulli import sample_layer
from bihm_repro.ops.numerics import sigmoid, softplus


class ChainLayer(Layer):
    """The symbolic layer; it uses one counter for each unit."""

    @property
    def counters(self):
        return self.units

    def _declare(self):
        return [*super()._declare(), ("c", (self.units,), BIAS, self._bias)]

    def _linear(self, x):
        return T.dot(x, self.W) + self.b

    def sample(self, x, *, repeats=1, seed, counter, train=False):
        x = T.repeat(x, repeats, axis=0)
        logits, before, columns = self._linear(x), 0 * x[:, :1], []
        for j in range(self.units):
            column = logits[:, j : j + 1] + self.c[j] * before
            before = sample_layer(column, repeats=1, seed=seed, counter=counter + j).sample
            columns.append(before)
        values = T.concatenate(columns, axis=1)
        return Sample(values, *self.score(values, x))

    def score(self, values, x, *, train=False):
        values = T.repeat(values, x.shape[0] // values.shape[0], axis=0)
        before = T.concatenate([0 * values[:, :1], values[:, :-1]], axis=1)
        logits = self._linear(x) + before * self.c
        log_prob = (values * logits - T.log1p(T.exp(logits))).sum(axis=1)

        def gradients(weight):
            residual = (1 / (1 + T.exp(-logits)) - values) * weight.dimshuffle(0, "x")
            return {
                self.W: T.dot(x.T, residual),
                self.b: residual.sum(axis=0),
                self.c: (residual * before).sum(axis=0),
            }

        return Score(log_prob, gradients, {self.W: (self.b, x.mean(axis=0))})


class NumpyChain(NumpyLayer):
    """The numpy form."""

    def __init__(self, name, arrays, settings=None):
        self._weights, self._bias = linear(name, arrays)
        self._coupling = array_of(f"{name}.c", arrays, 1)
        self.inputs, self.units = self._weights.shape

    def given(self, x=None):
        return _Chain(x @ self._weights + self._bias, self._coupling)


class _Chain(Conditional):
    def __init__(self, logits, coupling):
        self._logits, self._coupling = logits, coupling

    def _full(self, values):
        logits = self._logits
        if np.ndim(values) > logits.ndim:
            logits = logits[..., None, :]
        before = np.concatenate([0 * values[..., :1], values[..., :-1]], axis=-1)
        return logits + before * self._coupling

    def log_prob(self, values, units=None):
        logits = self._full(values)
        terms = values * logits - softplus(logits)
        return (terms if units is None else np.where(units, terms, 0)).sum(axis=-1)

    def sample(self, random, count=(), units=None, values=None):
        *rows, last = self._logits.shape
        shape = (*rows, *count, last)
        logits = self._logits.reshape(*rows, *(1 for _ in count), last)
        drawn = np.zeros(shape, np.float32)
        uniform, before = random.uniform(shape), np.zeros(shape[:-1], np.float32)
        for j in range(last):
            new = uniform[..., j] < sigmoid(logits[..., j] + self._coupling[j] * before)
            drawn[..., j] = new
            if units is not None:
                keep = np.broadcast_to(units, shape)[..., j]
                drawn[..., j] = np.where(keep, new, np.broadcast_to(values, shape)[..., j])
            before = drawn[..., j]
        return drawn

    def probabilities(self, values):
        return sigmoid(self._full(values))


register("chain", ChainLayer, NumpyChain)

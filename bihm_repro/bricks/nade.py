"""NADE layers: one hidden layer shared along the units (Larochelle and Murray, 2011).

    logit_i = b_i + sum_k x_k W_ki + V_i . s(c + sum_k x_k U_k + sum_{k<i} v_k R_k)

with s the logistic function, R and V (units, hidden), U (inputs, hidden). Of the linear maps, those
from the inputs x are centred. The hidden units see a sum over k < i that grows with i, so no change
of the one bias c makes up for centred v.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bihm_repro.bricks.base import BIAS, WEIGHT, Map
from bihm_repro.bricks.initialization import constant
from bihm_repro.bricks.layer import Layer, Prior, Sample, Score
from bihm_repro.engine.symbolic import T
from bihm_repro.ops.affine import affine
from bihm_repro.ops.autoregressive import nade_gradient, sample_nade, score_nade
from bihm_repro.ops.gradients import column_means, summed_residual, weighted_gradient

__all__ = ["NadeLayer", "NadePrior"]


class _Nade(Map):
    """The parameters; ``inputs`` is 0 for a prior, ``nade_hidden`` counts the hidden units."""

    def __init__(self, *sizes: Any, nade_hidden: int = 100, **settings: Any) -> None:
        super().__init__(*sizes, **settings)
        self.hidden = nade_hidden

    def _declare(self):
        from_inputs = [
            ("W", (self.inputs, self.units), WEIGHT, self._weights),
            ("U", (self.inputs, self.hidden), WEIGHT, self._weights),
        ]
        return [
            *(from_inputs if self.inputs else []),
            ("b", (self.units,), BIAS, self._bias),
            ("R", (self.units, self.hidden), WEIGHT, self._weights),
            ("V", (self.units, self.hidden), WEIGHT, self._weights),
            ("c", (self.hidden,), BIAS, constant(0.0)),
        ]


class _Prepared(NamedTuple):
    """The inputs x (rows, inputs) and their shares, (rows, units) and (rows, hidden)."""

    x: Any
    base: Any
    start: Any


class NadeLayer(_Nade, Layer):
    """p(v | x) with v_i given x and v_1 ... v_{i-1}."""

    def prepare(self, x: Any) -> _Prepared:
        """Compute the shares of the inputs once, for several calls."""
        if isinstance(x, _Prepared):
            return x
        return _Prepared(x, affine(x, self.W, self.b), affine(x, self.U, self.c))

    def sample(
        self, x: Any, *, repeats: Any = 1, seed: int, counter: Any, train: bool = False
    ) -> Sample:
        """See ``Layer.sample``."""
        x, base, start = self.prepare(x)
        arrays = base, start, self.R, self.V
        drawn = sample_nade(*arrays, repeats=repeats, seed=seed, counter=counter, residual=train)

        def gradients(weight) -> dict:
            # The K samples of a row share their inputs: their derivatives are summed first.
            of_x = summed_residual(T.zeros_like(base), drawn.residual, -weight)
            return self._gradients(x, start, drawn.sample, drawn.residual, weight, of_x)

        return Sample(drawn.sample, drawn.log_q, gradients, self._means(x))

    def score(self, values: Any, x: Any, *, train: bool = False) -> Score:
        """See ``Layer.score``."""
        x, base, start = self.prepare(x)
        scored = score_nade(values, base, start, self.R, self.V, residual=train)

        def gradients(weight) -> dict:
            of_x = scored.residual * weight.dimshuffle(0, "x")
            return self._gradients(x, start, values, scored.residual, weight, of_x)

        return Score(scored.log_p, gradients, self._means(x))

    def _gradients(
        self, x: Any, start: Any, values: Any, residual: Any, weight: Any, of_x: Any
    ) -> dict:
        derivatives = residual * weight.dimshuffle(0, "x")
        into, out, back = nade_gradient(values, start, self.R, self.V, derivatives)
        of_start = summed_residual(T.zeros_like(start), back, -T.ones_like(weight))
        ones = T.ones_like(x[:, 0])
        weights, bias = weighted_gradient(x, of_x, ones)
        hidden_weights, hidden_bias = weighted_gradient(x, of_start, ones)
        return {
            self.W: weights,
            self.b: bias,
            self.U: hidden_weights,
            self.c: hidden_bias,
            self.R: into,
            self.V: out,
        }

    def _means(self, x: Any) -> dict:
        mean = column_means(x)
        return {self.W: (self.b, mean), self.U: (self.c, mean)}


class NadePrior(_Nade, Prior):
    """p(v) with v_i given v_1 ... v_{i-1}: the neural autoregressive distribution estimator."""

    def sample(self, rows: Any, *, seed: int, counter: Any) -> Sample:
        """See ``Prior.sample``."""
        arrays = self.b.dimshuffle("x", 0), self.c.dimshuffle("x", 0), self.R, self.V
        drawn = sample_nade(*arrays, repeats=rows, seed=seed, counter=counter, residual=True)
        return Sample(
            drawn.sample,
            drawn.log_q,
            lambda weight: self._gradients(drawn.sample, drawn.residual, weight),
        )

    def score(self, values: Any, *, train: bool = False) -> Score:
        """See ``Prior.score``."""
        arrays = self.b.dimshuffle("x", 0), self.c.dimshuffle("x", 0), self.R, self.V
        scored = score_nade(values, *arrays, residual=train)
        return Score(scored.log_p, lambda weight: self._gradients(values, scored.residual, weight))

    def _gradients(self, values: Any, residual: Any, weight: Any) -> dict:
        derivatives = residual * weight.dimshuffle(0, "x")
        start = self.c.dimshuffle("x", 0)
        into, out, back = nade_gradient(values, start, self.R, self.V, derivatives)
        return {
            self.b: derivatives.sum(axis=0),
            self.c: back.sum(axis=0),
            self.R: into,
            self.V: out,
        }

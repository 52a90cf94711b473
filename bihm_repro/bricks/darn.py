"""DARN layers: logistic regression on the inputs and on the units before it (Gregor et al., 2014).

    logit_i = b_i + sum_k x_k W_ki + sum_{k<i} v_k A_ki

The two matrices are one parameter ``W`` of shape (inputs + units, units), the weights from the
inputs above the strictly upper triangular A: one linear map of (x, v), centred as such.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from bihm_repro.bricks.base import Brick, Map
from bihm_repro.bricks.layer import Layer, Prior, Sample, Score
from bihm_repro.engine.symbolic import T
from bihm_repro.ops.adam import upper_triangle
from bihm_repro.ops.affine import affine
from bihm_repro.ops.autoregressive import sample_darn, score_darn
from bihm_repro.ops.gradients import column_means, summed_residual, weighted_gradient

__all__ = ["DarnLayer", "DarnPrior"]


class _Darn(Map):
    """The parameters; ``inputs`` is 0 for a prior."""

    @cached_property
    def _mask(self) -> Any:
        return upper_triangle(self.inputs + self.units, self.units, self.inputs, self.dtype)

    def _declare(self):
        def initial(shape: tuple, seed: int) -> Any:
            return self._weights(shape, seed) * self._mask

        (_, _, role, _), bias = super()._declare()
        return [("W", (self.inputs + self.units, self.units), role, initial), bias]

    def allocate(self, prefix: str = "") -> Brick:
        """Make the parameters."""
        super().allocate(prefix)
        self.W.tag.full_rows = self.inputs
        return self

    @property
    def _within(self) -> Any:
        return self.W[self.inputs :] * self._mask[self.inputs :]

    def _within_gradient(self, values: Any, residual: Any, weight: Any) -> Any:
        return weighted_gradient(values, residual, weight)[0] * self._mask[self.inputs :]


class _Prepared(NamedTuple):
    """The inputs x (rows, inputs), and their share of the logits, (rows, units)."""

    x: Any
    base: Any


class DarnLayer(_Darn, Layer):
    """p(v | x) with v_i given x and v_1 ... v_{i-1}."""

    def prepare(self, x: Any) -> _Prepared:
        """Compute the share of the inputs once, for several calls."""
        if isinstance(x, _Prepared):
            return x
        return _Prepared(x, affine(x, self.W[: self.inputs], self.b))

    def sample(
        self, x: Any, *, repeats: Any = 1, seed: int, counter: Any, train: bool = False
    ) -> Sample:
        """See ``Layer.sample``."""
        x, base = self.prepare(x)
        drawn = sample_darn(
            base, self._within, repeats=repeats, seed=seed, counter=counter, residual=train
        )

        def gradients(weight) -> dict:
            # The K samples of a row share their inputs: their residuals are summed first.
            of_x = summed_residual(T.zeros_like(base), drawn.residual, -weight)
            within = self._within_gradient(drawn.sample, drawn.residual, weight)
            return self._gradients(x, of_x, T.ones_like(of_x[:, 0]), within)

        return Sample(drawn.sample, drawn.log_q, gradients, self._means(x, drawn.sample))

    def score(self, values: Any, x: Any, *, train: bool = False) -> Score:
        """See ``Layer.score``."""
        x, base = self.prepare(x)
        scored = score_darn(values, base, self._within, residual=train)

        def gradients(weight) -> dict:
            of_values = summed_residual(T.zeros_like(values), scored.residual, -weight)
            ones = T.ones_like(of_values[:, 0])
            within = self._within_gradient(values, of_values, ones)
            return self._gradients(x, scored.residual, weight, within)

        return Score(scored.log_p, gradients, self._means(x, values))

    def _gradients(self, x: Any, residual: Any, weight: Any, within: Any) -> dict:
        weights, bias = weighted_gradient(x, residual, weight)
        return {self.W: T.concatenate([weights, within]), self.b: bias}

    def _means(self, x: Any, values: Any) -> dict:
        return {self.W: (self.b, T.concatenate([column_means(x), column_means(values)]))}


class DarnPrior(_Darn, Prior):
    """p(v) with v_i given v_1 ... v_{i-1}: a fully visible sigmoid belief network."""

    def sample(self, rows: Any, *, seed: int, counter: Any) -> Sample:
        """See ``Prior.sample``."""
        base = self.b.dimshuffle("x", 0)
        drawn = sample_darn(
            base, self._within, repeats=rows, seed=seed, counter=counter, residual=True
        )
        return Sample(
            drawn.sample,
            drawn.log_q,
            lambda weight: self._gradients(drawn.sample, drawn.residual, weight),
            self._means(drawn.sample),
        )

    def score(self, values: Any, *, train: bool = False) -> Score:
        """See ``Prior.score``."""
        base = self.b.dimshuffle("x", 0)
        scored = score_darn(values, base, self._within, residual=train)
        return Score(
            scored.log_p,
            lambda weight: self._gradients(values, scored.residual, weight),
            self._means(values),
        )

    def _gradients(self, values: Any, residual: Any, weight: Any) -> dict:
        weights, bias = weighted_gradient(values, residual, weight)
        return {self.W: weights * self._mask, self.b: bias}

    def _means(self, values: Any) -> dict:
        return {self.W: (self.b, column_means(values))}

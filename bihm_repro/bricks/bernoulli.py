"""Layers of Bernoulli units: sigmoid belief network layers and the factorised top prior.

A layer is drawn (``sample``) or compared with given values (``score``). Both return the rows'
log-probabilities and a function from row weights w to the gradients of -sum_rows w log-probability
(Algorithm 1 takes nothing else), so a model never sees how a layer is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bihm_repro.bricks.base import BIAS
from bihm_repro.bricks.layer import Layer, Prior, Sample, Score
from bihm_repro.bricks.mlp import features
from bihm_repro.engine.symbolic import T, grad
from bihm_repro.ops.affine import affine
from bihm_repro.ops.bernoulli import sample_layer, score_layer
from bihm_repro.ops.gradients import column_means, summed_residual, weighted_gradient

__all__ = ["BernoulliLayer", "FactorisedPrior", "softplus"]


class _Prepared(NamedTuple):
    """The inputs of the last linear map, (rows, inputs), and its outputs, (rows, units)."""

    features: Any
    logits: Any


class BernoulliLayer(Layer):
    """B(units | logistic(f(x) W + b)), f the identity or an MLP of deterministic units.

    Parameters
    ----------
    inputs, units : sizes
    hidden, activation : sizes and activation of the deterministic layers, none by default
    """

    def __init__(
        self,
        name: str,
        inputs: int,
        units: int,
        *,
        hidden: Sequence[int] = (),
        activation: str = "tanh",
        **settings: Any,
    ) -> None:
        children, width = features(inputs, hidden, activation, **settings)
        super().__init__(name, width, units, children=children, **settings)

    def _features(self, x):
        return self.children[0].apply(x) if self.children else x

    def prepare(self, x: Any) -> Any:
        """Compute the logits once, for several calls of ``sample`` and ``score``."""
        x = self._features(x)
        return _Prepared(x, affine(x, self.W, self.b))

    def _arguments(self, x: Any) -> tuple[Any, tuple]:
        """Return the features, and what the fused Ops take: logits, or what they are made of."""
        if isinstance(x, _Prepared):
            return x.features, (x.logits,)
        x = self._features(x)
        return x, (x, self.W, self.b)

    def sample(
        self, x: Any, *, repeats: Any = 1, seed: int, counter: Any, train: bool = False
    ) -> Sample:
        """See ``Layer.sample``."""
        single = isinstance(repeats, int) and repeats == 1
        x, given = self._arguments(x)
        drawn = sample_layer(
            *given,
            repeats=repeats,
            seed=seed,
            counter=counter,
            residual=train and single,
            mean=train and not single,
        )

        def gradients(weight) -> dict:
            if single:
                return self._gradients(x, drawn.residual, weight)
            residual = summed_residual(drawn.mean, drawn.sample, weight)
            return self._gradients(x, residual, T.ones_like(residual[:, 0]))

        return Sample(drawn.sample, drawn.log_q, gradients, self._input_means(x))

    def score(self, values: Any, x: Any, *, train: bool = False) -> Score:
        """See ``Layer.score``."""
        x, given = self._arguments(x)
        scored = score_layer(values, *given, residual=train)
        return Score(
            scored.log_p,
            lambda weight: self._gradients(x, scored.residual, weight),
            self._input_means(x),
        )

    def _input_means(self, x: Any) -> dict:
        return {self.W: (self.b, column_means(x))}

    def _gradients(self, x, residual, weight) -> dict:
        weights, bias = weighted_gradient(x, residual, weight)
        gradients = {self.W: weights, self.b: bias}
        if self.children:
            back = T.dot(residual * weight.dimshuffle(0, "x"), self.W.T)
            below = self.children[0].parameters
            gradients.update(zip(below, grad(None, below, known_grads={x: back})))
        return gradients


class FactorisedPrior(Prior):
    """p(h) = prod_i B(h_i | logistic(b_i)): the top of the generative model."""

    def _declare(self):
        return [("b", (self.units,), BIAS, self._bias)]

    def sample(self, rows: Any, *, seed: int, counter: Any) -> Sample:
        """See ``Prior.sample``."""
        drawn = sample_layer(self.b.dimshuffle("x", 0), repeats=rows, seed=seed, counter=counter)
        return Sample(drawn.sample, drawn.log_q, lambda w: self._gradients(drawn.sample, w))

    def score(self, values: Any, *, train: bool = False) -> Score:
        """See ``Prior.score``."""
        # Sums, not products: the rounding of BLAS depends on the number of its threads.
        log_prob = (values * self.b).sum(axis=1) - softplus(self.b).sum()
        return Score(log_prob, lambda w: self._gradients(values, w))

    def _gradients(self, values, weight) -> dict:
        probability = T.exp(-softplus(-self.b))
        drawn = (weight.dimshuffle(0, "x") * values).sum(axis=0)
        return {self.b: probability * weight.sum() - drawn}


def softplus(x: Any) -> Any:
    """Return log(1 + exp(x)), without overflow."""
    return T.maximum(x, 0) + T.log1p(T.exp(-abs(x)))

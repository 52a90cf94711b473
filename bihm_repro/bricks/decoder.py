"""The Bernoulli layer at the data of a model whose latents are differentiated through.

``BernoulliLayer`` gives gradients of its own parameters only, since binary samples count as
observed. Here the gradient continues into the latents: the fused Op scores the data and gives
the residual, and what arrives at the layer's inputs is handed to the engine's ``grad``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bihm_repro.bricks.bernoulli import BernoulliLayer
from bihm_repro.engine.symbolic import T
from bihm_repro.ops.bernoulli import score_layer
from bihm_repro.ops.gradients import weighted_gradient

__all__ = ["BernoulliDecoder", "Decoded"]


class Decoded(NamedTuple):
    """``log_prob`` (rows,) and ``gradients(w)`` of -sum w log_prob for row weights w (rows,).

    The gradients are two dicts: those of the output weights and bias, and that of the output
    layer's inputs, for ``known_grads``, from which all below follow.
    """

    log_prob: Any
    gradients: Callable[[Any], tuple[dict, dict]]


class BernoulliDecoder(BernoulliLayer):
    """B(x | logistic(f(h) W + b)), f an MLP or the identity, with gradients of its inputs."""

    def decode(self, values, h, *, train: bool = False) -> Decoded:
        """Score ``values`` (n, units), a row for each group of K rows of ``h`` (n * K, inputs)."""
        # A variable of its own: where f is the identity, h may have other gradients besides.
        features = self._features(h).copy()
        scored = score_layer(values, features, self.W, self.b, residual=train)

        def gradients(weight) -> tuple[dict, dict]:
            weights, bias = weighted_gradient(features, scored.residual, weight)
            below = T.dot(scored.residual * weight.dimshuffle(0, "x"), self.W.T)
            return {self.W: weights, self.b: bias}, {features: below}

        return Decoded(scored.log_p, gradients)

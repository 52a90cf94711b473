"""NADE (Larochelle and Murray, 2011): p(x) = prod_i p(x_i | x_1 ... x_{i-1}), the order fixed.

The conditionals share one hidden layer; see ``bricks.nade``. Without latents, log p(x) is exact.
``model.layers`` has one number, the hidden units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bihm_repro.bricks.initialization import by_name, constant
from bihm_repro.bricks.nade import NadePrior
from bihm_repro.engine.symbolic import T, floatX
from bihm_repro.models.base import Model, TrainingGraph, check_sizes

__all__ = ["Nade"]


class Nade(Model):
    """The neural autoregressive distribution estimator, trained on the exact log-likelihood."""

    kind = "nade"

    def __init__(
        self,
        data_dim: int,
        layers: Sequence[int],
        *,
        weights: str = "glorot",
        weights_scale: float = 0.1,
        bias: float = 0.0,
        dtype: str = floatX,
    ) -> None:
        check_sizes(data_dim, layers, single=self.kind)
        self.data_dim, self.layers = int(data_dim), [int(n) for n in layers]
        self.p = NadePrior(
            "p0",
            self.data_dim,
            weights=by_name(weights, weights_scale),
            bias=constant(bias),
            nade_hidden=self.layers[0],
            dtype=dtype,
        )
        super().__init__(self.kind, [self.p], dtype)

    def training_graph(self, x: Any, samples: int, seed: int, counter: Any) -> TrainingGraph:
        """Build one update on the mini-batch ``x`` (batch, data_dim); nothing is sampled."""
        score = self.p.score(x, train=True)
        gradients = score.gradients(T.ones_like(score.log_prob))
        return TrainingGraph(gradients, {"log_p": score.log_prob.sum()}, counters=0)

    def exact_log_p(self, x: Any) -> Any:
        """See ``Model.exact_log_p``."""
        return self.p.score(x).log_prob

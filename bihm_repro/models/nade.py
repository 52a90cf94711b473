"""NADE (Larochelle and Murray, 2011): p(x) = prod_i p(x_i | x_1 ... x_{i-1}), the order fixed.

The conditionals share one hidden layer; see ``bricks.nade``. Without latents, log p(x) is exact.
``model.layers`` has one number, the hidden units.
"""

from __future__ import annotations

from typing import Any

from bihm_repro.bricks.base import Brick
from bihm_repro.bricks.nade import NadePrior
from bihm_repro.engine.symbolic import T
from bihm_repro.models.base import SingleLayer, TrainingGraph

__all__ = ["Nade"]


class Nade(SingleLayer):
    """The neural autoregressive distribution estimator, trained on the exact log-likelihood."""

    kind = "nade"

    def brick(self, name: str, **settings: Any) -> Brick:
        """See ``SingleLayer.brick``."""
        return NadePrior(name, self.data_dim, nade_hidden=self.layers[0], **settings)

    def training_graph(self, x: Any, samples: int, seed: int, counter: Any) -> TrainingGraph:
        """Build one update on the mini-batch ``x`` (batch, data_dim); nothing is sampled."""
        score = self.p.score(x, train=True)
        gradients = score.gradients(T.ones_like(score.log_prob))
        return TrainingGraph(gradients, {"log_p": score.log_prob.sum()}, counters=0)

    def exact_log_p(self, x: Any) -> Any:
        """See ``Model.exact_log_p``."""
        return self.p.score(x).log_prob

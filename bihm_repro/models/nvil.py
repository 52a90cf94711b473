"""NVIL, neural variational inference and learning (Mnih and Gregor, 2014).

With h ~ q(h|x) the bound log p(x, h) - log q(h|x) is raised: p along d log p(x, h), and each layer
of q along its learning signal times its score. The signal of q(h_l | h_{l-1}) has the terms that
depend on h_l,

    s_l = sum_{j >= l} log p(h_{j-1} | h_j) - log q(h_j | h_{j-1})   + log p(h_L),

less two baselines: a running mean, and a neural network of h_{l-1} trained to predict the rest.
Where the running variance of the result is above 1, it is divided by its root. K samples of an
example are averaged.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from bihm_repro.bricks.base import Brick
from bihm_repro.bricks.initialization import constant, glorot
from bihm_repro.bricks.mlp import MLP, Linear
from bihm_repro.engine.symbolic import T, grad, shared
from bihm_repro.models.base import TrainingGraph, log_mean_exp
from bihm_repro.models.helmholtz import HelmholtzMachine

__all__ = ["Nvil"]

HIDDEN = 100
"""Hidden units of each baseline network."""
DECAY = 0.8
"""Of the running means and variances."""


class Baseline(Brick):
    """A prediction of the learning signal from (rows, inputs); 0 at first."""

    def __init__(self, name: str, inputs: int, dtype: str) -> None:
        zero = constant(0.0)
        settings: dict[str, Any] = {"bias": zero, "dtype": dtype}
        self._hidden = MLP("mlp", inputs, [HIDDEN], "tanh", weights=glorot, **settings)
        self._out = Linear("out", HIDDEN, 1, weights=zero, **settings)
        super().__init__(name, [self._hidden, self._out], dtype)

    def apply(self, x: Any) -> Any:
        """Return the predictions, (rows,)."""
        return self._out.apply(self._hidden.apply(x))[:, 0]


class Nvil(HelmholtzMachine):
    """p and q trained towards the variational bound, with learned baselines."""

    kind = "nvil"

    def further_children(self) -> list[Brick]:
        """Return a baseline for each layer of q."""
        sizes = [self.data_dim, *self.layers[:-1]]
        self.baselines = [
            Baseline(f"baseline{level}", size, self.q[level].dtype)
            for level, size in enumerate(sizes)
        ]
        return list(self.baselines)

    def training_graph(self, x: Any, samples: int, seed: int, counter: Any) -> TrainingGraph:
        """Build one update on the mini-batch ``x`` (batch, data_dim) with K = ``samples``."""
        rows = T.repeat(x, samples, axis=0) if samples > 1 else x
        drawn, below, used = [], rows, 0
        for layer in self.q:
            drawn.append(layer.sample(below, seed=seed, counter=counter + used, train=True))
            below, used = drawn[-1].values, used + layer.counters
        layers = [rows, *(d.values for d in drawn)]
        scores = [
            layer.score(values, above, train=True)
            for layer, values, above in zip(self.p, layers, layers[1:])
        ]
        prior = self.prior.score(layers[-1], train=True)

        terms = [score.log_prob - d.log_prob for score, d in zip(scores, drawn)]
        signals = list(accumulate([prior.log_prob + terms[-1], *terms[-2::-1]]))[::-1]
        share = np.asarray(1.0 / samples, self.dtype)
        each = T.ones_like(prior.log_prob) * share
        gradients: dict = {}
        for part in (*scores, prior):
            gradients.update(part.gradients(each))
        state, updates = [], []
        for level, (signal, sample) in enumerate(zip(signals, drawn)):
            rest, found, new = self._less_baselines(level, signal, layers[level])
            gradients.update({w: g * share for w, g in found.items()})
            gradients.update(sample.gradients((rest * share).astype(self.dtype)))
            state += [variable for variable, _ in new]
            updates += new
        log_r = signals[0].reshape((x.shape[0], samples))
        parts: list[Any] = [*scores, prior, *drawn]
        means = {k: v for part in parts for k, v in part.input_means.items()}
        monitors = {"log_p": log_mean_exp(log_r).sum()}
        return TrainingGraph(gradients, monitors, used, means, state, updates)

    def _less_baselines(self, level: int, signal: Any, inputs: Any) -> tuple[Any, dict, list]:
        """Return the signal to learn from, the gradients of its baseline, and the new state."""
        mean, variance = (
            shared(np.asarray(0.0, self.dtype), name=f"nvil.{name}{level}")
            for name in ("mean", "variance")
        )
        network = self.baselines[level]
        rest = signal - network.apply(inputs) - mean
        parameters = network.parameters
        # The samples are constants, and so is the signal.
        found = grad((rest**2).sum() / 2, parameters, consider_constant=[signal, inputs])
        decay = np.asarray(DECAY, self.dtype)
        new_mean = decay * mean + (1 - decay) * (rest + mean).mean()
        new_variance = decay * variance + (1 - decay) * rest.var()
        scaled = rest / T.maximum(np.asarray(1.0, self.dtype), T.sqrt(variance))
        updates = [
            (mean, T.cast(new_mean, self.dtype)),
            (variance, T.cast(new_variance, self.dtype)),
        ]
        return scaled, dict(zip(parameters, found)), updates

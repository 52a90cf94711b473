"""A generative model p and an inference model q with L layers of binary latents.

    p(x, h) = p(h_L) p(h_{L-1} | h_L) ... p(x | h_1)         ancestral pass downwards
    q(h | x) = q(h_1 | x) q(h_2 | h_1) ... q(h_L | h_{L-1})  ancestral pass upwards

Children are named as in ``model.npz``: ``p0 ... p{L-1}`` with weights (upper, lower), the prior
``p{L}``, and ``q0 ... q{L-1}`` with weights (lower, upper); 0 is the layer at the data.
What sets one method of training apart from another is ``training_graph``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bihm_repro.bricks.base import Brick
from bihm_repro.bricks.bernoulli import BernoulliLayer, FactorisedPrior
from bihm_repro.bricks.initialization import by_name, constant
from bihm_repro.engine.symbolic import T, floatX
from bihm_repro.errors import InputError

__all__ = ["HelmholtzMachine", "Inference", "Joint", "TrainingGraph", "check_sizes",
           "log_mean_exp", "normalised"]


@dataclass(frozen=True)
class TrainingGraph:
    """One update, symbolically.

    gradients : parameter to gradient of the SUM over the mini-batch of the negative objective
    monitors : name to scalar, a SUM over the mini-batch
    draws : how many numbers of the draw counter the graph uses up
    input_means : weights of a linear map to (its bias, the mean of its inputs), for centring
    """

    gradients: dict
    monitors: dict
    draws: int
    input_means: dict = field(default_factory=dict)


class Inference(NamedTuple):
    """h ~ q(h|x): ``layers`` each (rows, units), ``log_q`` (rows,), ``gradients(w)``."""

    layers: list
    log_q: object
    gradients: Callable
    input_means: dict


class Joint(NamedTuple):
    """``log_p`` (rows,) = log p(x, h) and ``gradients(w)`` of -sum w log p(x, h)."""

    log_p: object
    gradients: Callable
    input_means: dict


def log_mean_exp(a, axis: int = 1):
    """log of the mean of exp(a) along ``axis``, safe from overflow."""
    top = a.max(axis=axis, keepdims=True)
    return T.log(T.exp(a - top).mean(axis=axis)) + T.max(a, axis=axis)


def normalised(log_weights):
    """Importance weights (batch, samples) that sum to one for each example."""
    weights = T.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def check_sizes(data_dim: int, layers: Sequence[int]) -> None:
    """Sizes have to be whole numbers of at least 1, and there has to be a layer."""
    if len(layers) == 0:
        raise InputError("model.layers is empty: at least one latent layer is needed")
    for name, size in (("data_dim", data_dim), *(("model.layers", n) for n in layers)):
        if isinstance(size, bool) or int(size) != size or size < 1:
            raise InputError(f"{name} has {size!r}: whole numbers of at least 1 are needed")


class HelmholtzMachine(Brick):
    """p and q of Bernoulli layers.

    Parameters
    ----------
    data_dim : observed units
    layers : latent layer sizes, from the data up
    hidden, activation : deterministic layers inside each conditional, none by default
    weights, weights_scale, bias : first values; see ``bricks.initialization``
    """

    kind = "helmholtz"

    def __init__(self, data_dim: int, layers: Sequence[int], *, hidden: Sequence[int] = (),
                 activation: str = "tanh", weights: str = "glorot-over-fan-in",
                 weights_scale: float = 0.1, bias: float = -1.0, dtype: str = floatX) -> None:
        check_sizes(data_dim, layers)
        self.data_dim, self.layers = int(data_dim), [int(n) for n in layers]
        first = {"weights": by_name(weights, weights_scale), "bias": constant(bias),
                 "dtype": dtype}
        more = {"hidden": list(hidden), "activation": activation}
        sizes = [self.data_dim, *self.layers]
        pairs = list(zip(sizes[:-1], sizes[1:]))
        self.p = [BernoulliLayer(f"p{i}", upper, lower, **first, **more)
                  for i, (lower, upper) in enumerate(pairs)]
        self.q = [BernoulliLayer(f"q{i}", lower, upper, **first, **more)
                  for i, (lower, upper) in enumerate(pairs)]
        self.prior = FactorisedPrior(f"p{len(pairs)}", sizes[-1], bias=first["bias"], dtype=dtype)
        super().__init__(self.kind, [*self.p, self.prior, *self.q], dtype)

    # -- ancestral passes

    def infer(self, x, samples, seed: int, draw, train: bool = False, logits=None) -> Inference:
        """h ~ q(h|x), ``samples`` for each row of ``x`` (batch, data_dim), side by side.

        ``logits`` are those of the first layer, where they have been made already.
        """
        draws = []
        below, repeats = x, samples
        for i, layer in enumerate(self.q):
            draws.append(layer.sample(below, repeats=repeats, seed=seed, draw=draw + i,
                                      train=train, logits=logits))
            below, repeats, logits = draws[-1].sample, 1, None
        return Inference([d.sample for d in draws], sum(d.log_prob for d in draws),
                         _together(draws), _means(draws))

    def joint(self, x, layers: list, train: bool = False) -> Joint:
        """log p(x, h); ``x`` may have a row for each group of K rows of the layers."""
        values = [x, *layers[:-1]]
        scores = [layer.score(v, above, train=train)
                  for layer, v, above in zip(self.p, values, layers)]
        scores.append(self.prior.score(layers[-1]))
        return Joint(sum(s.log_prob for s in scores), _together(scores), _means(scores))

    def inference_score(self, x, layers: list, train: bool = False, logits=None) -> Inference:
        """log q(h|x) of given layers, a row of ``x`` for each row of them; see ``infer``."""
        known = [logits, *[None] * (len(layers) - 1)]
        scores = [layer.score(values, below, train=train, logits=first) for
                  layer, values, below, first in zip(self.q, layers, [x, *layers[:-1]], known)]
        return Inference(layers, sum(s.log_prob for s in scores), _together(scores), _means(scores))

    def generate(self, rows, seed: int, draw) -> tuple:
        """(x, layers, log p(x, h)) with ``rows`` rows drawn from p; uses L + 1 draws."""
        drawn = [self.prior.sample(rows, seed=seed, draw=draw)]
        for i, layer in enumerate(reversed(self.p)):
            drawn.append(layer.sample(drawn[-1].sample, seed=seed, draw=draw + 1 + i))
        layers = [d.sample for d in reversed(drawn)]
        return layers[0], layers[1:], sum(d.log_prob for d in drawn)

    # -- importance weights

    def log_weights(self, x, samples, seed: int, draw, logits=None) -> tuple:
        """(log r, draws) with log r = log p(x, h) - log q(h|x), (batch, samples), h ~ q(h|x)."""
        inference = self.infer(x, samples, seed, draw, logits=logits)
        log_r = self.joint(x, inference.layers).log_p - inference.log_q
        return log_r.reshape((x.shape[0], samples)), len(self.q)


def _together(parts: list) -> Callable:
    """The gradients of all parts for the same row weights."""
    return lambda weight: {k: v for part in parts for k, v in part.gradients(weight).items()}


def _means(parts: list) -> dict:
    """Return the input means of all parts."""
    return {k: v for part in parts for k, v in part.input_means.items()}

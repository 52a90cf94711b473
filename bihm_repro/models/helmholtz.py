"""A generative model p and an inference model q with L layers of binary latents.

    p(x, h) = p(h_L) p(h_{L-1} | h_L) ... p(x | h_1)         ancestral pass downwards
    q(h | x) = q(h_1 | x) q(h_2 | h_1) ... q(h_L | h_{L-1})  ancestral pass upwards

Children are named as in ``model.npz``: ``p0 ... p{L-1}`` with weights (upper, lower), the prior
``p{L}``, and ``q0 ... q{L-1}`` with weights (lower, upper); 0 is the layer at the data.
Methods of training differ in ``training_graph``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, Union

from bihm_repro.bricks import registry
from bihm_repro.bricks.base import Brick
from bihm_repro.bricks.initialization import by_name, constant
from bihm_repro.bricks.layer import Layer, Prior, Sample, build
from bihm_repro.engine.symbolic import T, floatX
from bihm_repro.models.base import Model, checked_sizes

__all__ = ["HelmholtzMachine", "Inference", "Joint"]

Machine = TypeVar("Machine", bound="HelmholtzMachine")

LayerNames = Union[str, Sequence[str], None]
"""A layer type for all levels, or one for each from the data up; None for the default."""


class Inference(NamedTuple):
    """log q(h|x) of ``layers``, each (rows, units).

    log_q : (rows,)
    gradients, input_means : as in ``bricks.layer.Score``, of all layers together
    """

    layers: list
    log_q: Any
    gradients: Callable[[Any], dict]
    input_means: Mapping[Any, tuple[Any, Any]]


class Joint(NamedTuple):
    """log p(x, h).

    log_p : (rows,)
    gradients, input_means : as in ``bricks.layer.Score``, of all layers together
    """

    log_p: Any
    gradients: Callable[[Any], dict]
    input_means: Mapping[Any, tuple[Any, Any]]


class HelmholtzMachine(Model):
    """p and q of layers of binary units.

    Parameters
    ----------
    data_dim : observed units
    layers : latent layer sizes, from the data up
    p_layer, q_layer : layer types of p(h_l|h_{l+1}) and q(h_{l+1}|h_l), a name for all levels or
        a list of one name for each, from the data up; see ``bricks.registry``
    prior : the layer type of p(h_L)
    weights, weights_scale, bias : initial values; see ``bricks.initialization``
    layer_settings : further settings; each layer takes those that it declares
    """

    p: list[Layer]
    q: list[Layer]
    prior: Prior

    def __init__(
        self,
        data_dim: int,
        layers: Sequence[int],
        *,
        p_layer: LayerNames = None,
        q_layer: LayerNames = None,
        prior: str | None = None,
        weights: str = "glorot-over-fan-in",
        weights_scale: float = 0.1,
        bias: float = -1.0,
        dtype: str = floatX,
        layer_settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.data_dim, self.layers = checked_sizes(data_dim, layers)
        settings = {
            **(layer_settings or {}),
            "weights": by_name(weights, weights_scale),
            "bias": constant(bias),
            "dtype": dtype,
        }
        sizes, depth = [self.data_dim, *self.layers], len(self.layers)
        p_types = registry.names_by_level(p_layer, depth, "model.p_layer")
        q_types = registry.names_by_level(q_layer, depth, "model.q_layer")
        self.p = [
            _conditional(p_types[i], f"p{i}", sizes[i + 1], sizes[i], settings)
            for i in range(depth)
        ]
        self.q = [
            _conditional(q_types[i], f"q{i}", sizes[i], sizes[i + 1], settings)
            for i in range(depth)
        ]
        top = registry.layer_type(prior or registry.DEFAULT, prior=True)
        self.prior = build(top.prior, f"p{depth}", sizes[-1], **settings)
        children = [*self.p, self.prior, *self.q, *self.further_children()]
        super().__init__(self.kind, children, dtype)

    def further_children(self) -> list[Brick]:
        """Return what a method of training needs besides p and q, such as baselines."""
        return []

    # -- ancestral passes

    @property
    def inference_counters(self) -> int:
        """Counters that ``infer`` uses."""
        return sum(layer.counters for layer in self.q)

    @property
    def generation_counters(self) -> int:
        """Counters that ``generate`` uses."""
        return sum(layer.counters for layer in self.p) + self.prior.counters

    def infer(
        self, x: Any, samples: Any, seed: int, counter: Any, train: bool = False
    ) -> Inference:
        """Draw h ~ q(h|x), ``samples`` next to each other for each row of ``x`` (batch, data_dim).

        ``x`` may also be what ``prepare`` of the first layer of q returned.
        """
        drawn: list[Sample] = []
        below, repeats, used = x, samples, 0
        for layer in self.q:
            drawn.append(
                layer.sample(below, repeats=repeats, seed=seed, counter=counter + used, train=train)
            )
            below, repeats, used = drawn[-1].values, 1, used + layer.counters
        return Inference(
            [d.values for d in drawn],
            sum(d.log_prob for d in drawn),
            _together(drawn),
            _input_means(drawn),
        )

    def joint(self, x: Any, layers: list, train: bool = False) -> Joint:
        """Score x, h under p; ``x`` may have one row for each group of K rows of the layers."""
        values = [x, *layers[:-1]]
        scores = [
            layer.score(v, above, train=train) for layer, v, above in zip(self.p, values, layers)
        ]
        scores.append(self.prior.score(layers[-1], train=train))
        return Joint(sum(s.log_prob for s in scores), _together(scores), _input_means(scores))

    def both_ways(
        self, x: Any, samples: Any, seed: int, counter: Any, train: bool = False
    ) -> tuple[Inference, Joint, Any]:
        """Infer h from ``x``, then score x, h under p; the last are log p - log q (batch, K)."""
        inference = self.infer(x, samples, seed, counter, train)
        joint = self.joint(x, inference.layers, train)
        return inference, joint, (joint.log_p - inference.log_q).reshape((x.shape[0], samples))

    def inference_score(self, x: Any, layers: list, train: bool = False) -> Inference:
        """Score given layers under q(h|x), one row of ``x`` for each of theirs; see ``infer``."""
        scores = [
            layer.score(values, below, train=train)
            for layer, values, below in zip(self.q, layers, [x, *layers[:-1]])
        ]
        return Inference(
            layers, sum(s.log_prob for s in scores), _together(scores), _input_means(scores)
        )

    def generate(self, rows: Any, seed: int, counter: Any) -> tuple[Any, list, Any]:
        """Draw from p: (x, layers, log p(x, h)) with ``rows`` rows."""
        drawn, used = [self.prior.sample(rows, seed=seed, counter=counter)], self.prior.counters
        for layer in reversed(self.p):
            drawn.append(layer.sample(drawn[-1].values, seed=seed, counter=counter + used))
            used += layer.counters
        layers = [d.values for d in reversed(drawn)]
        return layers[0], layers[1:], sum(d.log_prob for d in drawn)

    def sleep_gradients(self, rows: Any, weight: float, seed: int, counter: Any) -> dict:
        """Return the gradients of -``weight`` sum log q(h|x) over ``rows`` samples x, h ~ p."""
        x, layers, _ = self.generate(rows, seed, counter)
        weights = (T.ones_like(x[:, 0]) * weight).astype(self.dtype)
        return self.inference_score(x, layers, train=True).gradients(weights)

    # -- the layers below and above a latent layer h_l

    def part_above(self: Machine, level: int) -> Machine:
        """Return the layers above h_l, l = ``level``, as a model of h_l; parameters are shared."""
        part = copy.copy(self)
        part.data_dim, part.layers = self.layers[level - 1], self.layers[level:]
        part.p, part.q = self.p[level:], self.q[level:]
        return part

    def sample_below(self, level: int, x: Any, seed: int, counter: Any) -> tuple[Any, Any, int]:
        """Draw h_1 ... h_l ~ q, l = ``level``, one sample for each row of ``x``.

        Returns h_l (batch, units), log p(x, h_1 ... h_{l-1} | h_l) - log q(h_1 ... h_l | x)
        (batch,), and the number of counters used.
        """
        part = copy.copy(self)
        part.q = self.q[:level]
        inference = part.infer(x, 1, seed, counter)
        log_p = sum(
            layer.score(values, above).log_prob
            for layer, values, above in zip(self.p, [x, *inference.layers], inference.layers)
        )
        return inference.layers[-1], log_p - inference.log_q, part.inference_counters

    # -- importance weights

    def log_weights(self, x: Any, samples: Any, seed: int, counter: Any) -> tuple[Any, int]:
        """See ``Model.log_weights``."""
        return self.both_ways(x, samples, seed, counter)[2], self.inference_counters


def _conditional(
    type_name: str, name: str, inputs: int, units: int, settings: Mapping[str, Any]
) -> Layer:
    return build(registry.layer_type(type_name).conditional, name, inputs, units, **settings)


def _together(parts: Sequence[Any]) -> Callable[[Any], dict]:
    """Return the gradients of all parts for the same row weights."""
    return lambda weight: {k: v for part in parts for k, v in part.gradients(weight).items()}


def _input_means(parts: Sequence[Any]) -> dict:
    return {k: v for part in parts for k, v in part.input_means.items()}

"""A generative model p and an inference model q with L layers of Gaussian latents.

    p(x, h) = N(h_L | 0, 1) p(h_{L-1} | h_L) ... p(x | h_1)    Gaussian layers, Bernoulli data
    q(h | x) = q(h_1 | x) q(h_2 | h_1) ... q(h_L | h_{L-1})    Gaussian layers

Children are named as those of the binary models: ``p0 ... p{L-1}`` and ``q0 ... q{L-1}``, 0 at the
data; each has its own deterministic layers. The prior has no parameters. The VAE and the
IWAE differ in ``training_graph``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bihm_repro.bricks.decoder import BernoulliDecoder, Decoded
from bihm_repro.bricks.gaussian import GaussianLayer, GaussianSample, prior_log_density
from bihm_repro.bricks.initialization import by_name, constant
from bihm_repro.engine.symbolic import floatX, grad
from bihm_repro.errors import InputError
from bihm_repro.models.base import Model, checked_sizes
from bihm_repro.ops.normal import standard_normal

__all__ = ["GaussianAutoencoder", "Pass", "hidden_of_each"]


class Pass(NamedTuple):
    """One pass up and down with K samples for each row of the data.

    samples : the layers of q, samples (batch * K, units) each
    decoded : log p(x|h_1) (batch * K,) and its gradients
    log_latents : log p(h) - log q(h|x), (batch * K,)
    log_r : log p(x, h) - log q(h|x), (batch, K)
    """

    samples: list[GaussianSample]
    decoded: Decoded
    log_latents: Any
    log_r: Any


def hidden_of_each(hidden: Sequence, depth: int) -> list[list[int]]:
    """The deterministic sizes of each of ``depth`` layers: one list for all, or one for each."""
    if not hidden or not isinstance(hidden[0], (list, tuple)):
        return [list(hidden)] * depth
    if len(hidden) != depth:
        raise InputError(
            f"model.hidden has {len(hidden)} lists: one list for all latent layers "
            f"or one for each of the {depth} is needed"
        )
    return [list(sizes) for sizes in hidden]


class GaussianAutoencoder(Model):
    """p and q of Gaussian layers, with Bernoulli data.

    Parameters
    ----------
    data_dim : observed units
    layers : latent layer sizes, from the data up
    hidden, activation : deterministic layers inside each conditional; a list, or one a layer.
        q's are the given sizes from the data up, p's the same from the latents down
    weights, weights_scale, bias : initial values; see ``bricks.initialization``
    """

    has_one_layer = False

    def __init__(
        self,
        data_dim: int,
        layers: Sequence[int],
        *,
        hidden: Sequence = (500, 500),
        activation: str = "relu",
        weights: str = "gaussian",
        weights_scale: float = 0.1,
        bias: float = 0.0,
        dtype: str = floatX,
    ) -> None:
        single = self.kind if self.has_one_layer else ""
        self.data_dim, self.layers = checked_sizes(data_dim, layers, single=single)
        inner = hidden_of_each(hidden, len(self.layers))
        more: dict[str, Any] = {
            "weights": by_name(weights, weights_scale),
            "bias": constant(bias),
            "activation": activation,
            "dtype": dtype,
        }
        sizes = [self.data_dim, *self.layers]
        pairs = list(zip(sizes[:-1], sizes[1:], inner))
        self.q = [
            GaussianLayer(f"q{i}", lower, upper, hidden=between, **more)
            for i, (lower, upper, between) in enumerate(pairs)
        ]
        kinds: list[Any] = [BernoulliDecoder] + [GaussianLayer] * (len(pairs) - 1)
        self.p: list[Any] = [
            layer(f"p{i}", upper, lower, hidden=between[::-1], **more)
            for i, (layer, (lower, upper, between)) in enumerate(zip(kinds, pairs))
        ]
        super().__init__(self.kind, [*self.p, *self.q], dtype)

    def infer(self, x: Any, samples: Any, seed: int, counter: Any) -> list[GaussianSample]:
        """Draw h ~ q(h|x), ``samples`` next to each other for each row of ``x``."""
        drawn: list[GaussianSample] = []
        below, repeats = x, samples
        for i, layer in enumerate(self.q):
            noise = standard_normal(x, layer.units, repeats=samples, seed=seed, counter=counter + i)
            drawn.append(layer.sample(below, noise, repeats=repeats))
            below, repeats = drawn[-1].sample, 1
        return drawn

    def log_latent_joint(self, layers: list) -> Any:
        """log p(h_1, ..., h_L), (rows,), of ``layers`` (rows, units) each."""
        conditionals = [
            layer.log_density(values, above)
            for layer, values, above in zip(self.p[1:], layers, layers[1:])
        ]
        return sum(conditionals, prior_log_density(layers[-1]))

    def both_ways(self, x: Any, samples: Any, seed: int, counter: Any, train: bool = False) -> Pass:
        """Infer h from ``x`` (batch, data_dim), then score x and h under p."""
        drawn = self.infer(x, samples, seed, counter)
        layers = [d.sample for d in drawn]
        decoded = self.p[0].decode(x, layers[0], train=train)
        log_latents = self.log_latent_joint(layers) - sum(d.log_density for d in drawn)
        log_r = (decoded.log_prob + log_latents).reshape((x.shape[0], samples))
        return Pass(drawn, decoded, log_latents, log_r)

    def log_weights(self, x: Any, samples: Any, seed: int, counter: Any) -> tuple[Any, int]:
        """See ``Model.log_weights``."""
        return self.both_ways(x, samples, seed, counter).log_r, len(self.q)

    def gradients(self, decoded: Decoded, weight, rest) -> dict:
        """Gradients of ``rest`` - sum ``weight`` log p(x|h_1), every parameter's.

        ``weight`` (rows,) counts as constant; ``rest`` is a scalar without x's own term.
        """
        own, known = decoded.gradients(weight)
        others = [p for p in self.parameters if p not in own]
        found = grad(rest, others, known_grads=known, consider_constant=[weight])
        return {**own, **dict(zip(others, found))}

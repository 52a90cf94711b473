"""The two directed models p(x, h) and q(h|x) of the paper's section 3 in numpy.

Layers are a list [x, h_1, ..., h_L]; layer l has shape (..., size of layer l), float32.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bihm_repro.bricks import registry
from bihm_repro.bricks.numpy_layer import Conditional, NumpyLayer
from bihm_repro.bricks.plugins import resolve
from bihm_repro.errors import InputError
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers.base import Sampler

__all__ = ["HelmholtzSampler"]


class HelmholtzSampler(Sampler):
    """p and q of a model with binary layers.

    ``p[l]`` is p(h_l | h_{l+1}), ``p[L]`` the prior, and ``q[l]`` is q(h_{l+1} | h_l); ``sizes``
    are the sizes of x, h_1, ..., h_L.
    """

    p: list[NumpyLayer]
    q: list[NumpyLayer]

    def __init__(self, values: Mapping[str, np.ndarray], settings: Any = None) -> None:
        """Take the parameters of layers of the types that ``settings`` name."""
        names = [re.match(r"q(\d+)\.", name) for name in values]
        levels = {int(found[1]) for found in names if found}
        self.depth = len(levels)
        if levels != set(range(self.depth)) or not levels:
            raise InputError(
                "model: no array q0.W; a model with binary layers has arrays "
                "p{l}.W, p{l}.b, q{l}.W, q{l}.b for each level l and p{L}.b for the "
                "top prior; give the model.npz of such a run"
            )
        self.p = _layers("p", self.depth, values, settings)
        top = registry.layer_type(getattr(settings, "prior", None) or registry.DEFAULT, prior=True)
        self.p.append(resolve(top.numpy_prior)(f"p{self.depth}", values, settings))
        self.q = _layers("q", self.depth, values, settings)
        self.sizes = [layer.units for layer in self.p]
        self.data_dim = self.sizes[0]
        self._check_sizes()

    def _check_sizes(self) -> None:
        for level, (lower, upper) in enumerate(zip(self.sizes, self.sizes[1:])):
            for layer, name, expected in (
                (self.p[level], "p", (upper, lower)),
                (self.q[level], "q", (lower, upper)),
            ):
                if (layer.inputs, layer.units) != expected:
                    raise InputError(
                        f"model: layer {name}{level} has {layer.inputs} inputs and {layer.units} "
                        f"units, expected {expected[0]} and {expected[1]} from the sizes "
                        f"{self.sizes} of the layers of p; give the model.npz of a run"
                    )

    def p_given(self, level: int, upper: np.ndarray | None = None) -> Conditional:
        """Return p(h_level | h_{level+1} = upper); the prior, level L, takes no ``upper``."""
        return self.p[level].given(upper)

    def q_given(self, level: int, lower: np.ndarray) -> Conditional:
        """Return q(h_level | h_{level-1} = lower), for a level from 1 to L."""
        return self.q[level - 1].given(lower)

    def expected_x(self, layers: Sequence[np.ndarray]) -> np.ndarray:
        """Return the probabilities of the observed units given h_1, shape (..., data_dim).

        For layers whose units depend on each other, given the units of x that come before.
        """
        return self.p_given(0, layers[1]).probabilities(layers[0])

    def sample_p(self, n: int, random: RandomStream) -> list[np.ndarray]:
        """Draw ``n`` ancestral samples of p, from the top down; layers of shape (n, size)."""
        layers = [self.p_given(self.depth).sample(random, (n,))]
        for level in reversed(range(self.depth)):
            layers.insert(0, self.p_given(level, layers[0]).sample(random))
        return layers

    def sample(self, n: int, random: RandomStream) -> tuple[np.ndarray, np.ndarray]:
        """See ``Sampler.sample``."""
        layers = self.sample_p(n, random)
        return layers[0], self.expected_x(layers)

    def posterior_means(
        self, x: np.ndarray, level: int, samples: int, random: RandomStream
    ) -> np.ndarray:
        """See ``Sampler.posterior_means``."""
        total = np.zeros((len(x), self.sizes[level]), np.float32)
        samples = 1 if level == 1 and self.q[0].factorised else samples
        for _ in range(samples):
            layers = [np.asarray(x, np.float32)]
            for below in range(1, level):
                layers.append(self.q_given(below, layers[-1]).sample(random))
            conditional = self.q_given(level, layers[-1])
            total += conditional.probabilities(conditional.sample(random))
        return total / samples

    def sample_q(self, x: np.ndarray, random: RandomStream) -> list[np.ndarray]:
        """Draw h ~ q(h|x) for each row of ``x`` (..., data_dim); the list starts with x itself."""
        return self.extend_q([np.asarray(x, np.float32)], random)

    def extend_q(self, layers: Sequence[np.ndarray], random: RandomStream) -> list[np.ndarray]:
        """Draw the layers above the ones given, from the bottom up, and return all of them."""
        layers = list(layers)
        for level in range(len(layers), self.depth + 1):
            layers.append(self.q_given(level, layers[-1]).sample(random))
        return layers

    def log_joint(self, layers: Sequence[np.ndarray]) -> np.ndarray:
        """Return log p(x, h) of each row, shape (...)."""
        above = [*layers[1:], None]
        total = np.zeros(layers[1].shape[:-1], np.float32)
        for level in range(self.depth + 1):
            total = total + self.p_given(level, above[level]).log_prob(layers[level])
        return total

    def log_q(self, layers: Sequence[np.ndarray], start: int = 1) -> np.ndarray:
        """Return log q(h|x) of each row, shape (...); the layers below ``start`` are given."""
        total = np.zeros(layers[start - 1].shape[:-1], np.float32)
        for level in range(start, self.depth + 1):
            total = total + self.q_given(level, layers[level - 1]).log_prob(layers[level])
        return total

    def log_weights(
        self, x: np.ndarray, samples: int, random: RandomStream, first: Conditional | None = None
    ) -> np.ndarray:
        """Return log r = log p(x, h) - log q(h|x) for h ~ q(h|x), shape (..., samples).

        ``x`` has shape (..., data_dim); ``first``, q(h_1|x), spares its computation.
        """
        first = first or self.q_given(1, x)
        h1 = first.sample(random, (samples,))
        # q depends on x through h_1 alone once that is drawn, so x need not be repeated for it.
        layers = self.extend_q([x[..., None, :], h1], random)
        return self.log_joint(layers) - first.log_prob(h1) - self.log_q(layers, start=2)


def _layers(
    direction: str, depth: int, values: Mapping[str, np.ndarray], settings: Any
) -> list[NumpyLayer]:
    field = f"{direction}_layer"
    names = registry.names_by_level(getattr(settings, field, None), depth, f"model.{field}")
    classes = [resolve(registry.layer_type(name).numpy_conditional) for name in names]
    return [cls(f"{direction}{level}", values, settings) for level, cls in enumerate(classes)]

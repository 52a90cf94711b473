"""Ancestral samples of the models with Gaussian latents (VAE, IWAE), in numpy.

    h_L ~ N(0, 1),   h_l ~ N(m_l(h_{l+1}), exp(v_l(h_{l+1}))),   x ~ B(logistic(f(h_1) W + b))

Arrays are named as in ``model.npz``: ``p0.W``, ``p0.b`` at the data, ``p{l}.mean.W`` and
``p{l}.log_variance.W`` (and ``.b``) above, ``p{l}.mlp.hidden{i}.W`` of the deterministic layers
inside each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bihm_repro.bricks.numpy_layer import NumpyBernoulli, linear, mlp
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers.base import Sampler

__all__ = ["GaussianSampler"]


class _GaussianLayer:
    """N(m(h), exp(v(h))), m and v linear in the features of deterministic layers."""

    def __init__(self, name: str, values: Mapping[str, np.ndarray], activation: str) -> None:
        self._features, inputs = mlp(name, values, activation)
        self._mean, self._log_variance = (
            linear(f"{name}.{part}", values) for part in ("mean", "log_variance")
        )
        self.inputs = inputs or len(self._mean[0])

    def mean(self, h: np.ndarray) -> np.ndarray:
        """Return the mean for each row of ``h`` (n, inputs)."""
        weights, bias = self._mean
        return self._features(h) @ weights + bias

    def sample(self, h: np.ndarray, random: RandomStream) -> np.ndarray:
        """Draw one sample for each row of ``h`` (n, inputs)."""
        features = self._features(h)
        mean, log_variance = (
            features @ weights + bias for weights, bias in (self._mean, self._log_variance)
        )
        return mean + np.exp(0.5 * log_variance) * random.normal(mean.shape)


class GaussianSampler(Sampler):
    """p of a VAE or IWAE."""

    def __init__(self, values: Mapping[str, np.ndarray], settings: Any = None) -> None:
        """Take the arrays of p; ``settings.activation`` is that of the deterministic layers."""
        activation = getattr(settings, "activation", "relu")
        self._values, self._activation = values, activation
        self._data = NumpyBernoulli("p0", values, settings)
        self._layers: list[_GaussianLayer] = []
        while any(name.startswith(f"p{len(self._layers) + 1}.") for name in values):
            self._layers.append(_GaussianLayer(f"p{len(self._layers) + 1}", values, activation))
        inputs = [self._data.inputs, *(layer.inputs for layer in self._layers)]
        self.latents, self.data_dim = inputs[-1], self._data.units

    def sample(self, n: int, random: RandomStream) -> tuple[np.ndarray, np.ndarray]:
        """See ``Sampler.sample``."""
        h = random.normal((n, self.latents))
        for layer in reversed(self._layers):
            h = layer.sample(h, random)
        conditional = self._data.given(h)
        x = conditional.sample(random)
        return x, conditional.probabilities(x)

    def posterior_means(
        self, x: np.ndarray, level: int, samples: int, random: RandomStream
    ) -> np.ndarray:
        """See ``Sampler.posterior_means``."""
        below = [_GaussianLayer(f"q{i}", self._values, self._activation) for i in range(level)]
        draws = 1 if level == 1 else samples
        total = np.zeros(())
        for _ in range(draws):
            h = np.asarray(x, np.float32)
            for layer in below[:-1]:
                h = layer.sample(h, random)
            total = total + below[-1].mean(h)
        return (total / draws).astype(np.float32)

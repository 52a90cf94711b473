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
from bihm_repro.errors import InputError
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers.base import Sampler

__all__ = ["GaussianSampler"]


class _GaussianLayer:
    """N(m(h), exp(v(h))), m and v linear in the features of deterministic layers."""

    def __init__(self, name: str, values: Mapping[str, np.ndarray], activation: str) -> None:
        self._mean, self._log_variance = (
            linear(f"{name}.{part}", values) for part in ("mean", "log_variance")
        )
        shapes = [weights.shape for weights, _ in (self._mean, self._log_variance)]
        if shapes[0] != shapes[1]:
            raise InputError(
                f"model: the arrays {name}.mean.W and {name}.log_variance.W have shapes "
                f"{shapes[0]} and {shapes[1]}, which do not agree; give the model.npz of a run"
            )
        features, self.units = shapes[0]
        self._features, self.inputs = mlp(name, values, activation, features)

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
        self.data_dim = self._data.units
        self.sizes = [self.data_dim, self._data.inputs, *(item.inputs for item in self._layers)]
        for level, layer in enumerate(self._layers, 1):
            if layer.units != self.sizes[level]:
                raise InputError(
                    f"model: layer p{level} has {layer.units} units, expected "
                    f"{self.sizes[level]}, the inputs of p{level - 1}; give the model.npz of a run"
                )

    def sample(self, n: int, random: RandomStream) -> tuple[np.ndarray, np.ndarray]:
        """See ``Sampler.sample``."""
        h = random.normal((n, self.sizes[-1]))
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
        for i, layer in enumerate(below):
            if (layer.inputs, layer.units) != tuple(self.sizes[i : i + 2]):
                raise InputError(
                    f"model: layer q{i} has {layer.inputs} inputs and {layer.units} units, "
                    f"expected {self.sizes[i]} and {self.sizes[i + 1]}; give the model.npz of a run"
                )
        draws = 1 if level == 1 else samples
        total = np.zeros(())
        for _ in range(draws):
            h = np.asarray(x, np.float32)
            for layer in below[:-1]:
                h = layer.sample(h, random)
            total = total + below[-1].mean(h)
        return (total / draws).astype(np.float32)

"""Ancestral samples of the baselines with Gaussian latents (VAE, IWAE), in numpy.

    h_L ~ N(0, 1),   h_l ~ N(m_l(h_{l+1}), exp(v_l(h_{l+1}))),   x ~ B(logistic(f(h_1) W + b))

Arrays are named as in ``model.npz``: ``p0.W``, ``p0.b`` at the data, ``p{l}.mean.W`` and
``p{l}.log_variance.W`` (and ``.b``) above, ``p{l}.mlp.hidden{i}.W`` of the deterministic layers
inside each.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.samplers.directed import sigmoid

__all__ = ["GaussianDecoder"]

ACTIVATIONS = {"tanh": np.tanh, "relu": lambda values: np.maximum(values, 0), "logistic": sigmoid}


class GaussianDecoder:
    """p of a VAE or IWAE, from the dict of arrays of its ``model.npz``.

    ``activation`` is that of the deterministic layers: tanh, relu or logistic.
    """

    def __init__(self, parameters: Mapping[str, np.ndarray], activation: str = "relu"):
        if activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise InputError(f"activation: {activation!r}; expected one of {known}")
        self._activation = ACTIVATIONS[activation]
        self._arrays = {name: a for name, a in parameters.items() if name.startswith("p")}
        self.depth = 1
        while f"p{self.depth}.mean.W" in self._arrays:
            self.depth += 1
        top = self._input_of(self.depth - 1)
        self.latents, self.data_dim = len(self._array(f"{top}.W")), len(self._array("p0.b"))

    def sample_means(self, n: int, generator: np.random.Generator) -> np.ndarray:
        """Return the means of p(x|h_1) for ``n`` ancestral samples, shape (n, data_dim)."""
        h = generator.standard_normal((n, self.latents), dtype=np.float32)
        for level in reversed(range(1, self.depth)):
            features = self._features(level, h)
            mean = self._linear(f"p{level}.mean", features)
            scale = np.exp(0.5 * self._linear(f"p{level}.log_variance", features))
            h = mean + scale * generator.standard_normal(mean.shape, dtype=np.float32)
        return sigmoid(self._linear("p0", self._features(0, h)))

    def _input_of(self, level: int) -> str:
        """Return the name of the first linear map that the layer's input meets."""
        hidden = f"p{level}.mlp.hidden0"
        if f"{hidden}.W" in self._arrays:
            return hidden
        return "p0" if level == 0 else f"p{level}.mean"

    def _features(self, level: int, values: np.ndarray) -> np.ndarray:
        index = 0
        while f"p{level}.mlp.hidden{index}.W" in self._arrays:
            values = self._activation(self._linear(f"p{level}.mlp.hidden{index}", values))
            index += 1
        return values

    def _linear(self, name: str, values: np.ndarray) -> np.ndarray:
        return values @ self._array(f"{name}.W") + self._array(f"{name}.b")

    def _array(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise InputError(f"model: the array {name} is missing; give a complete model.npz")
        return self._arrays[name]

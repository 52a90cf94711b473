"""The two directed models p(x, h) and q(h|x) of the paper's section 3 in numpy, for sampling.

Layers are a list [x, h_1, ..., h_L]; layer l has shape (..., size of layer l), float32. Every draw
comes from the numpy ``Generator`` that the caller hands in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bihm_repro.models.exact import layer_sizes

__all__ = ["DirectedPair", "bernoulli", "log_bernoulli", "sigmoid", "softplus"]


def softplus(logits: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(logits)) of the same shape, without overflow."""
    # log(1 + e) is several times faster than log1p and off by less than a float32 rounding of 1;
    # in place, because these arrays are the sampler's largest.
    result = np.abs(logits)
    np.negative(result, out=result)
    np.exp(result, out=result)
    result += 1
    np.log(result, out=result)
    result += np.maximum(logits, 0)
    return result


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-logits)) of the same shape, without overflow."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1, small) / (1 + small)


def bernoulli(means: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw 0 or 1 (float32) with probabilities ``means``, of the same shape."""
    return (generator.random(means.shape, dtype=np.float32) < means).astype(np.float32)


def log_bernoulli(values: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Return the log-probability of each row: the last axis is summed; shapes broadcast."""
    products = np.einsum("...i,...i->...", values, logits)
    return products - softplus(logits).sum(axis=-1)


class DirectedPair:
    """p and q of a dict of arrays named as in ``model.npz``; weights are kept in float32.

    >>> from bihm_repro.models.exact import random_parameters
    >>> pair = DirectedPair(random_parameters([6, 3, 2], seed=0))
    >>> [layer.shape for layer in pair.sample_p(5, np.random.default_rng(0))]
    [(5, 6), (5, 3), (5, 2)]
    """

    def __init__(self, parameters: Mapping[str, np.ndarray]):
        self.sizes = layer_sizes(parameters)
        self.depth = len(self.sizes) - 1
        names = [name for name in parameters if name != "meta"]
        self._arrays = {name: np.asarray(parameters[name], np.float32) for name in names}

    @property
    def data_dim(self) -> int:
        """The size of x."""
        return self.sizes[0]

    def p_logits(self, level: int, upper: np.ndarray | None = None) -> np.ndarray:
        """Return the logits of p(h_level | h_{level+1}), shape (..., size of the level).

        ``upper`` has shape (..., size of level + 1); the top prior, level L, needs none.
        """
        if level == self.depth:
            return self._arrays[f"p{level}.b"]
        return _linear(upper, self._arrays[f"p{level}.W"], self._arrays[f"p{level}.b"])

    def q_logits(self, level: int, lower: np.ndarray) -> np.ndarray:
        """Return the logits of q(h_level | h_{level-1}), shape (..., size of the level).

        ``lower`` has shape (..., size of level - 1); ``level`` is 1 to L.
        """
        return _linear(lower, self._arrays[f"q{level - 1}.W"], self._arrays[f"q{level - 1}.b"])

    def expected_x(self, h1: np.ndarray) -> np.ndarray:
        """Return the means of p(x|h_1), shape (..., data_dim), of ``h1`` (..., size of layer 1)."""
        return sigmoid(self.p_logits(0, h1))

    def sample_p(self, n: int, generator: np.random.Generator) -> list[np.ndarray]:
        """Draw ``n`` ancestral samples of p, from the top down; layers of shape (n, size)."""
        top = np.broadcast_to(sigmoid(self.p_logits(self.depth)), (n, self.sizes[-1]))
        layers = [bernoulli(top, generator)]
        for level in reversed(range(self.depth)):
            layers.insert(0, bernoulli(sigmoid(self.p_logits(level, layers[0])), generator))
        return layers

    def sample_means(self, n: int, generator: np.random.Generator) -> np.ndarray:
        """Return the means of p(x|h_1) for ``n`` ancestral samples of p, shape (n, data_dim)."""
        return self.expected_x(self.sample_p(n, generator)[1])

    def sample_q(self, x: np.ndarray, generator: np.random.Generator) -> list[np.ndarray]:
        """Draw h ~ q(h|x) for each row of ``x`` (..., data_dim); the list starts with x itself."""
        return self.extend_q([np.asarray(x, np.float32)], generator)

    def extend_q(
        self, layers: Sequence[np.ndarray], generator: np.random.Generator
    ) -> list[np.ndarray]:
        """Draw the layers above the ones given, from the bottom up, and return all of them."""
        layers = list(layers)
        for level in range(len(layers), self.depth + 1):
            layers.append(bernoulli(sigmoid(self.q_logits(level, layers[-1])), generator))
        return layers

    def log_joint(self, layers: Sequence[np.ndarray]) -> np.ndarray:
        """Return log p(x, h) of each row, shape (...)."""
        total = log_bernoulli(layers[-1], self.p_logits(self.depth))
        for level in range(self.depth):
            total = total + log_bernoulli(layers[level], self.p_logits(level, layers[level + 1]))
        return total

    def log_q(self, layers: Sequence[np.ndarray], start: int = 1) -> np.ndarray:
        """Return log q(h|x) of each row, shape (...); the layers below ``start`` are given."""
        total = np.zeros(layers[0].shape[:-1], np.float32)
        for level in range(start, self.depth + 1):
            total = total + log_bernoulli(layers[level], self.q_logits(level, layers[level - 1]))
        return total

    def log_weights(
        self,
        x: np.ndarray,
        samples: int,
        generator: np.random.Generator,
        logits: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return log r = log p(x, h) - log q(h|x) for h ~ q(h|x), shape (..., samples).

        ``x`` has shape (..., data_dim); ``logits``, those of q(h_1|x), spare their computation
        where the caller has them.
        """
        logits = (self.q_logits(1, x) if logits is None else logits)[..., None, :]
        shape = logits.shape[:-2] + (samples, self.sizes[1])
        h1 = bernoulli(np.broadcast_to(sigmoid(logits), shape), generator)
        # q never looks below h_1 once that is drawn, so x need not be repeated for it.
        layers = self.extend_q([x[..., None, :], h1], generator)
        return self.log_joint(layers) - log_bernoulli(h1, logits) - self.log_q(layers, start=2)


def _linear(values: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    # One large matrix product is far faster than a stack of small ones.
    flat = values.reshape(-1, values.shape[-1]) @ weights
    flat += bias
    return flat.reshape(values.shape[:-1] + (weights.shape[1],))

"""Every quantity of section 2 of the paper, by summing over all configurations in float64.

A model is the dict of arrays of a ``model.npz``: ``p{l}.W`` (upper, lower) and ``p{l}.b`` of
p(h_l | h_{l+1}), ``q{l}.W`` (lower, upper) and ``q{l}.b`` of q(h_{l+1} | h_l), ``p{L}.b`` of the
top prior p(h_L); h_0 is x. The paper's symbols are the methods of :class:`ExactModel`:

    p(x)      sum_h p(x, h)                        ``log_p``
    p~*(x)    (sum_h sqrt(p(x, h) q(h|x)))^2       ``log_p_tilde_star``   (equation 1)
    Z^2       sum_x p~*(x)                         ``log_z2``
    p*(x)     p~*(x) / Z^2, which is also q(x)     ``log_p_star``
    D_B       -log Z                               ``bhattacharyya_distance``

It is the reference that estimators, gradients and samplers are tested against, so it shares no
code with them. Time and memory grow as 2 to the number of units.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from bihm_repro.errors import InputError

__all__ = ["ExactModel", "layer_sizes", "log_sum_exp", "random_parameters", "states"]

MAX_UNITS = 20


def states(units: int) -> np.ndarray:
    """Return all binary vectors, shape (2**units, units), float64, in counting order.

    >>> states(2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    numbers = np.arange(2**units)[:, None]
    return ((numbers >> np.arange(units)[::-1]) & 1).astype(np.float64)


def log_sum_exp(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """Return log(sum(exp(values))) over ``axis`` (over everything for None); -inf is allowed."""
    top = np.max(values, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(values - top), axis=axis, keepdims=True)) + top
    return np.squeeze(total, axis=axis) if axis is not None else total.reshape(())


def layer_sizes(parameters: Mapping[str, np.ndarray]) -> list[int]:
    """Return [data_dim, latent sizes...] of a dict of arrays, after checking names and shapes.

    Entries with other names (such as ``meta``) are left alone.
    """
    depth = sum(bool(re.fullmatch(r"q\d+\.W", name)) for name in parameters)
    if depth == 0:
        raise InputError(
            "model: no array q0.W; a BiHM or RWS model has p{l}.W, p{l}.b, q{l}.W, q{l}.b for each "
            "layer l and p{L}.b for the top prior; give the model.npz of such a run"
        )
    for name in _names(depth):
        if name not in parameters:
            raise InputError(
                f"model: the array {name} is missing; a model of {depth} latent layers has "
                f"{', '.join(_names(depth))}; give a complete model.npz"
            )
    sizes = [int(np.size(parameters[f"p{level}.b"])) for level in range(depth + 1)]
    for name, shape in _shapes(sizes).items():
        found = np.shape(parameters[name])
        if found != shape:
            raise InputError(
                f"model: the array {name} has shape {found}, expected {shape} from the sizes of "
                f"p0.b to p{depth}.b, {sizes}; give a model.npz whose shapes agree"
            )
        if not np.all(np.isfinite(parameters[name])):
            raise InputError(f"model: the array {name} has values that are not finite numbers")
    return sizes


def random_parameters(sizes: Sequence[int], seed: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    """Return a random model: every weight and bias from N(0, scale**2), float64.

    ``sizes`` is [data_dim, latent sizes...], from the data up.

    >>> random_parameters([3, 2], seed=0)["q0.W"].shape
    (3, 2)
    """
    if len(sizes) < 2 or any(size < 1 for size in sizes):
        raise InputError(f"sizes: {list(sizes)}; expected two or more sizes, each 1 or more")
    generator = np.random.default_rng(seed)
    shapes = _shapes([int(size) for size in sizes])
    return {name: scale * generator.standard_normal(shape) for name, shape in shapes.items()}


class ExactModel:
    """The BiHM of a dict of arrays, summed over all configurations.

    Methods that take ``x`` expect (batch, data_dim) values in [0, 1]; ``None`` stands for all
    2**data_dim binary vectors, ``all_x``. Latent configurations are the rows of ``all_h``,
    shape (2**(sum of latent sizes), sum of latent sizes), layer 1 first.

    >>> model = ExactModel(random_parameters([3, 2, 2], seed=0))
    >>> round(float(np.exp(model.log_p_star()).sum()), 12)
    1.0
    """

    def __init__(self, parameters: Mapping[str, np.ndarray]):
        self.sizes = layer_sizes(parameters)
        if sum(self.sizes) > MAX_UNITS:
            raise InputError(
                f"model: {sum(self.sizes)} units (layers {self.sizes}) are too many to enumerate; "
                f"at most {MAX_UNITS}; use the estimators instead"
            )
        names = _names(self.depth)
        self.parameters = {name: np.asarray(parameters[name], np.float64) for name in names}
        self.all_x = states(self.sizes[0])
        self.all_h = states(sum(self.sizes[1:]))
        self.h = np.split(self.all_h, np.cumsum(self.sizes[1:-1]), axis=1)
        self._log_z2 = float(log_sum_exp(self.log_p_tilde_star()))

    @property
    def depth(self) -> int:
        """The number of latent layers, L."""
        return len(self.sizes) - 1

    # The two directed models on every latent configuration.

    def log_joint(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return log p(x, h), shape (batch, 2**latents)."""
        x = self._rows(x)
        prior = np.broadcast_to(self.parameters[f"p{self.depth}.b"], self.h[-1].shape)
        latent = _log_bernoulli(self.h[-1], prior)
        for level in range(1, self.depth):
            latent = latent + _log_bernoulli(self.h[level - 1], self._p_logits(level))
        logits = self._p_logits(0)
        return x @ logits.T - _softplus(logits).sum(axis=1) + latent

    def log_q(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return log q(h|x), shape (batch, 2**latents)."""
        logits = self._q0_logits(self._rows(x))
        first = logits @ self.h[0].T - _softplus(logits).sum(axis=1)[:, None]
        for level in range(1, self.depth):
            first = first + _log_bernoulli(self.h[level], self._q_logits(level))
        return first

    def log_weights(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return log r = log p(x, h) - log q(h|x), shape (batch, 2**latents)."""
        return self.log_joint(x) - self.log_q(x)

    # Marginals and the normalisation constant.

    def log_p(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return log p(x), shape (batch,)."""
        return log_sum_exp(self.log_joint(x), axis=1)

    def log_p_tilde_star(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return log p~*(x), shape (batch,): equation 1."""
        return 2 * log_sum_exp(0.5 * (self.log_joint(x) + self.log_q(x)), axis=1)

    @property
    def log_z2(self) -> float:
        """2 log Z = log sum_x p~*(x), never above 0."""
        return self._log_z2

    @property
    def bhattacharyya_distance(self) -> float:
        """D_B(p, q) = -log Z."""
        return -0.5 * self._log_z2

    def log_p_star(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return log p*(x), shape (batch,); q(x) is defined to be the same."""
        return self.log_p_tilde_star(x) - self._log_z2

    def log_q_joint(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return log q(x, h) = log p*(x) + log q(h|x), shape (batch, 2**latents)."""
        return self.log_p_star(x)[:, None] + self.log_q(x)

    def log_p_star_joint(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return log p*(x, h) = ½ log p(x, h) + ½ log q(x, h) - log Z, (batch, 2**latents)."""
        return 0.5 * (self.log_joint(x) + self.log_q_joint(x) - self._log_z2)

    # Posteriors and what importance sampling from q converges to.

    def log_posterior(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return log p(h|x), shape (batch, 2**latents)."""
        return self.log_joint(x) - self.log_p(x)[:, None]

    def log_posterior_star(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return log p*(h|x), shape (batch, 2**latents)."""
        half = 0.5 * (self.log_joint(x) + self.log_q(x))
        return half - log_sum_exp(half, axis=1)[:, None]

    def expected_log_weight(self, x: np.ndarray | None = None) -> np.ndarray:
        """Return the expectation of log r under q(h|x), shape (batch,): the bound at K = 1."""
        log_q = self.log_q(x)
        return np.sum(np.exp(log_q) * (self.log_joint(x) - log_q), axis=1)

    def ess_limit(self, x: np.ndarray | None = None, star: bool = True) -> np.ndarray:
        """Return the effective sample size as K grows, in percent of K, shape (batch,).

        It is 100 (E w)^2 / E w^2 under q(h|x), with w = sqrt(r) for p* (``star``), w = r for p.
        """
        log_q = self.log_q(x)
        log_w = (self.log_joint(x) - log_q) * (0.5 if star else 1.0)
        first, second = (log_sum_exp(log_q + power * log_w, axis=1) for power in (1, 2))
        return 100 * np.exp(2 * first - second)

    # Gradients.

    def gradient(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Return the gradient of the sum over the rows of ``x`` of log p~*(x), by array name.

        It is the expectation of d log p(x, h) q(h|x) under p*(h|x): the limit of equation 6.
        """
        return self.weighted_scores(x, np.exp(self.log_posterior_star(x)))

    def weighted_scores(self, x: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Return the sum over x and h of ``weights`` times d log p(x, h) and d log q(h|x).

        ``weights`` has shape (batch, 2**latents). The posterior p(h|x) as weights gives the
        gradient of log p(x) for p's arrays and the wake-phase gradient for q's.
        """
        x = self._rows(x)
        total = weights.sum(axis=0)
        layers = self.h
        expected_x = weights.T @ x
        mean_x = _sigmoid(self._p_logits(0))
        residual = expected_x - total[:, None] * mean_x
        scores = {"p0.W": layers[0].T @ residual, "p0.b": residual.sum(axis=0)}
        residual = weights @ layers[0] - weights.sum(axis=1)[:, None] * _sigmoid(self._q0_logits(x))
        scores.update({"q0.W": x.T @ residual, "q0.b": residual.sum(axis=0)})
        for level in range(1, self.depth):
            lower, upper = layers[level - 1], layers[level]
            down = total[:, None] * (lower - _sigmoid(self._p_logits(level)))
            up = total[:, None] * (upper - _sigmoid(self._q_logits(level)))
            scores.update({f"p{level}.W": upper.T @ down, f"p{level}.b": down.sum(axis=0)})
            scores.update({f"q{level}.W": lower.T @ up, f"q{level}.b": up.sum(axis=0)})
        prior = f"p{self.depth}.b"
        scores[prior] = total @ (layers[-1] - _sigmoid(self.parameters[prior]))
        return scores

    def _rows(self, x: np.ndarray | None) -> np.ndarray:
        if x is None:
            return self.all_x
        x = np.atleast_2d(np.asarray(x, np.float64))
        if x.ndim != 2 or x.shape[1] != self.sizes[0]:
            raise InputError(f"x: shape {x.shape}; expected (batch, {self.sizes[0]})")
        return x

    def _p_logits(self, level: int) -> np.ndarray:
        weight, bias = self.parameters[f"p{level}.W"], self.parameters[f"p{level}.b"]
        return self.h[level] @ weight + bias

    def _q_logits(self, level: int) -> np.ndarray:
        weight, bias = self.parameters[f"q{level}.W"], self.parameters[f"q{level}.b"]
        return self.h[level - 1] @ weight + bias

    def _q0_logits(self, x: np.ndarray) -> np.ndarray:
        return x @ self.parameters["q0.W"] + self.parameters["q0.b"]


def _names(depth: int) -> list[str]:
    return list(_shapes([0] * (depth + 1)))


def _shapes(sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for level, (lower, upper) in enumerate(zip(sizes[:-1], sizes[1:])):
        shapes[f"p{level}.W"], shapes[f"p{level}.b"] = (upper, lower), (lower,)
        shapes[f"q{level}.W"], shapes[f"q{level}.b"] = (lower, upper), (upper,)
    shapes[f"p{len(sizes) - 1}.b"] = (sizes[-1],)
    return shapes


def _softplus(logits: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, logits)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return np.exp(-_softplus(-logits))


def _log_bernoulli(values: np.ndarray, logits: np.ndarray) -> np.ndarray:
    return np.sum(values * logits - _softplus(logits), axis=1)

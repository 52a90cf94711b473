"""Layers of Gaussian units with a diagonal covariance, and the standard normal prior above them.

A layer is N(units | m(x), exp(v(x))) with m and v affine in the features of deterministic layers;
v is the logarithm of the variance. Draws are reparameterised, h = m + exp(v / 2) noise, so that
the engine differentiates through them (Kingma and Welling, 2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bihm_repro.bricks.base import Brick
from bihm_repro.bricks.mlp import Linear, features
from bihm_repro.engine.symbolic import T

__all__ = ["GaussianLayer", "GaussianSample", "divergence_from_prior", "prior_log_density"]

_LOG_2_PI = float(np.log(2 * np.pi))


class Moments(NamedTuple):
    """``mean`` and ``log_variance``, (rows, units) each."""

    mean: Any
    log_variance: Any


class GaussianSample(NamedTuple):
    """``sample`` (n * repeats, units), its log-density (n * repeats,), the layer's moments (n,)."""

    sample: Any
    log_density: Any
    moments: Moments


class GaussianLayer(Brick):
    """N(units | m(x), exp(v(x))), with an MLP of deterministic units below m and v.

    Parameters
    ----------
    inputs, units : sizes
    hidden, activation : sizes and activation of the deterministic layers; none where empty
    """

    def __init__(
        self,
        name: str,
        inputs: int,
        units: int,
        *,
        hidden: Sequence[int] = (),
        activation: str = "tanh",
        **settings: Any,
    ) -> None:
        self._mlp, width = features(inputs, hidden, activation, **settings)
        self._mean = Linear("mean", width, units, **settings)
        self._log_variance = Linear("log_variance", width, units, **settings)
        children = [*self._mlp, self._mean, self._log_variance]
        super().__init__(name, children, self._mean.dtype)
        self.units = units

    def moments(self, x) -> Moments:
        """Mean and logarithm of the variance, (rows, units) each, given ``x`` (rows, inputs)."""
        for mlp in self._mlp:
            x = mlp.apply(x)
        return Moments(self._mean.apply(x), self._log_variance.apply(x))

    def sample(self, x, noise, *, repeats=1) -> GaussianSample:
        """Draw ``repeats`` samples for each row of ``x`` (n, inputs): n * repeats rows.

        ``noise`` (n * repeats, units) is standard normal and held constant.
        """
        moments = mean, log_variance = self.moments(x)
        # The moments of a row serve all its samples: computed once, broadcast over the second axis.
        noise = noise.reshape((-1, repeats, self.units))
        scale = T.exp(log_variance / 2)
        sample = mean.dimshuffle(0, "x", 1) + scale.dimshuffle(0, "x", 1) * noise
        # With the noise itself no difference of close numbers is ever taken.
        log_density = (
            -(T.sqr(noise).sum(axis=2) + (log_variance + _LOG_2_PI).sum(axis=1).dimshuffle(0, "x"))
            / 2
        )
        return GaussianSample(sample.reshape((-1, self.units)), log_density.flatten(), moments)

    def log_density(self, values, x):
        """Log-density (rows,) of ``values`` (rows, units) given ``x`` (rows, inputs)."""
        mean, log_variance = self.moments(x)
        squares = T.sqr(values - mean) * T.exp(-log_variance)
        return -(squares + log_variance + _LOG_2_PI).sum(axis=1) / 2


def prior_log_density(values):
    """Log-density (rows,) of ``values`` (rows, units) under independent standard normals."""
    return -(T.sqr(values) + _LOG_2_PI).sum(axis=1) / 2


def divergence_from_prior(moments: Moments):
    """KL(N(m, exp(v)) || N(0, 1)) summed over the units, (rows,), in closed form."""
    mean, log_variance = moments
    return (T.sqr(mean) + T.exp(log_variance) - log_variance - 1).sum(axis=1) / 2

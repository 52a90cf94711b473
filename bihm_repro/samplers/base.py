"""The sampler interface: a model with fixed parameters, in numpy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.ops.random_stream import RandomStream

__all__ = ["Sampler"]


class Sampler(ABC):
    """A model that can be sampled without the engine; see ``models.registry.register``.

    What a subclass must give
    -------------------------
    __init__(values, settings) : takes the arrays of a ``model.npz`` by name, and the fields of a
        recipe's ``model`` section (None for their defaults); an InputError names a wrong array
    data_dim : the number of observed units
    sample : see there
    """

    data_dim: int

    @abstractmethod
    def __init__(self, values: Mapping[str, np.ndarray], settings: Any = None) -> None:
        """Take the parameters."""

    @abstractmethod
    def sample(self, n: int, random: RandomStream) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` samples of p: x and the probabilities x is drawn with, (n, data_dim) each."""

    def sample_means(self, n: int, random: RandomStream) -> np.ndarray:
        """Return the probabilities of the observed units for ``n`` samples of p, (n, data_dim)."""
        return self.sample(n, random)[1]

    def posterior_means(
        self, x: np.ndarray, level: int, samples: int, random: RandomStream
    ) -> np.ndarray:
        """Return the means of the units of h_level, level 1 or more, under q(h|x).

        ``x`` is (n, data_dim), the result (n, units); above level 1 the means are averages over
        ``samples`` samples of the layers below.
        """
        raise InputError(f"{type(self).__name__}: this kind of model has no q(h|x)")

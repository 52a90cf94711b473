"""The sampler interface: a model with fixed parameters, in numpy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.ops.random_stream import RandomStream

__all__ = ["Sampler", "check_sizes"]


class Sampler(ABC):
    """A model that can be sampled without the engine; see ``models.registry.register``.

    What a subclass must give
    -------------------------
    __init__(values, settings) : takes the arrays of a ``model.npz`` by name, and the fields of a
        recipe's ``model`` section (None for their defaults); an InputError names a wrong array
    data_dim : the number of observed units
    sizes : the sizes of x, h_1, ..., h_L, where there are such layers
    sample : see there
    """

    data_dim: int
    sizes: Sequence[int] = ()

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


def check_sizes(sampler: Sampler, data_dim: int | None, layers: Sequence[int]) -> None:
    """Refuse arrays of other sizes than the file's ``data_dim`` (None: not known) and recipe."""
    if data_dim is not None and data_dim != sampler.data_dim:
        raise InputError(
            f"its meta has data_dim = {data_dim}, its arrays have {sampler.data_dim} observed units"
        )
    if sampler.sizes and list(sampler.sizes[1:]) != list(layers):
        raise InputError(
            f"its arrays have the latent layers {list(sampler.sizes[1:])}, its recipe "
            f"{list(layers)}"
        )

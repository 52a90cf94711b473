"""Random numbers for numpy code: Threefry numbers with a counter that advances by itself."""

from __future__ import annotations

import math

import numpy as np

from bihm_repro.ops.random_numbers import normal, seed_for, uniform

__all__ = ["RandomStream", "random_rows"]

_COLUMNS = 1024


class RandomStream:
    """Arrays of random numbers, each a function of the seed, the purpose and the calls before.

    Each call uses one counter; ``counter`` is the next one.

    >>> RandomStream(0, "example").uniform((2, 3)).shape
    (2, 3)
    """

    def __init__(self, seed: int, purpose: str) -> None:
        """Start at counter 0 of the seed that belongs to ``seed`` and ``purpose``."""
        self.seed, self.counter = seed_for(seed, purpose), 0

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return float32 numbers in (0, 1)."""
        return self._filled(uniform, shape)

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return standard normal float32 numbers."""
        return self._filled(normal, shape)

    def integers(self, below: int, count: int) -> np.ndarray:
        """Return ``count`` integers from 0 to ``below`` - 1."""
        return (self.uniform((count,)).astype(np.float64) * below).astype(np.int64)

    def choice(self, total: int, count: int) -> np.ndarray:
        """Return ``count`` different integers from 0 to ``total`` - 1, in random order."""
        keys = uniform(self.seed, self.counter, 1, total)[0]
        self.counter += 1
        return np.argsort(keys, kind="stable")[:count]

    def _filled(self, generate, shape: tuple[int, ...]) -> np.ndarray:
        size = math.prod(shape)
        found = generate(self.seed, self.counter, -(-size // _COLUMNS), _COLUMNS)
        self.counter += 1
        return found.reshape(-1)[:size].reshape(shape)


def random_rows(x: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return ``count`` random rows of ``x`` in their order, all where ``count`` is 0 or too large.

    Test sets may be sorted by class, so the first rows are not a random subset.
    """
    numbers = random_row_numbers(len(x), count, seed)
    return x if len(numbers) == len(x) else x[numbers]


def random_row_numbers(total: int, count: int, seed: int) -> np.ndarray:
    """Return the numbers of the rows of ``total`` that :func:`random_rows` takes."""
    if count == 0 or count >= total:
        return np.arange(total)
    return np.sort(RandomStream(seed, "subset").choice(total, count))

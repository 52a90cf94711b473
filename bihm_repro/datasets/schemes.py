"""Iteration schemes in Fuel's sense: in what order the examples of an epoch are asked for.

A scheme's ``get_request_iterator()`` yields one request a batch: a ``slice`` where the examples
lie side by side, an index array where they do not. Request iterators can be pickled in the middle
of an epoch and continue with the next batch when loaded: they are made of the built-in ``map`` and
``range`` alone, which can be pickled where ``itertools`` (from Python 3.14 on) cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Union

import numpy as np

from bihm_repro.errors import InputError

__all__ = ["Request", "SequentialScheme", "ShuffledScheme", "shuffled_order"]

Request = Union[slice, np.ndarray]
"""Which rows a batch takes."""

_SHUFFLE = 0x7368_7566
"""Sets the shuffling's random numbers apart from those of any other purpose."""


def shuffled_order(examples: int, seed: int, epoch: int) -> np.ndarray:
    """Return the permutation ``(examples,)`` of one epoch, a function of ``(seed, epoch)`` alone.

    It sorts raw 64-bit words of a counter-based generator, so it is the same under every version
    of numpy.
    """
    raw = np.random.Philox(key=[seed, (epoch << 32) + _SHUFFLE]).random_raw(examples)
    return np.argsort(raw, kind="stable")


def _slice_request(examples: int, batch_size: int, start: int) -> slice:
    return slice(start, min(start + batch_size, examples))


def _index_request(order: np.ndarray, batch_size: int, start: int) -> np.ndarray:
    return order[start:start + batch_size]


class SequentialScheme:
    """Batches in the order of the file; the last one may be smaller.

    >>> list(SequentialScheme(5, batch_size=2).get_request_iterator())
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """

    requests_examples = False

    def __init__(self, examples: int, batch_size: int) -> None:
        if examples < 1 or batch_size < 1:
            raise InputError(f"a stream needs at least one example and a batch size of at least "
                             f"one, got {examples} examples in batches of {batch_size}")
        self.examples, self.batch_size = int(examples), int(batch_size)

    @property
    def batches(self) -> int:
        """Number of batches in an epoch, the smaller last one counted."""
        return -(-self.examples // self.batch_size)

    def get_request_iterator(self, start: int = 0) -> Iterator[Request]:
        """Return the requests of an epoch from batch number ``start`` on."""
        if not 0 <= start <= self.batches:
            raise InputError(f"batch {start} is outside 0 to {self.batches}, the batches of an "
                             f"epoch")
        first = min(start * self.batch_size, self.examples)
        return map(self._request(), range(first, self.examples, self.batch_size))

    def _request(self) -> partial[Request]:
        return partial(_slice_request, self.examples, self.batch_size)


class ShuffledScheme(SequentialScheme):
    """Batches in the random order that belongs to ``(seed, epoch)``; the last may be smaller."""

    def __init__(self, examples: int, batch_size: int, seed: int, epoch: int = 0) -> None:
        super().__init__(examples, batch_size)
        self.seed, self.epoch = seed, epoch

    def _request(self) -> partial[Request]:
        order = shuffled_order(self.examples, self.seed, self.epoch)
        return partial(_index_request, order, self.batch_size)

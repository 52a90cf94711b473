"""Data streams in Fuel's sense: float32 mini-batches that can be resumed, repeated and pickled.

An iteration scheme gives one request for each batch of an epoch: a ``slice`` where the examples are
contiguous, an index array where they are not. A :class:`BatchStream` answers the requests. It keeps
no position and no generator: ``stream.epoch(epoch, start)`` begins at any batch of any epoch, so a
resumed run sees the batches that an uninterrupted one would have seen. Grey levels are binarized
by a Bernoulli sample that is a function of (seed, epoch, row): a new one in each epoch, and the
same one when the epoch is repeated.

The iterators are those of picklable-itertools, as in Fuel: a stream, or an epoch that has been
read in part, can be pickled, sent to a worker and continued there.

The random bits are the raw output of numpy's Philox generator, which is counter-based and does not
change between versions of numpy.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Union

import numpy as np
from picklable_itertools import count, imap

from bihm_repro.errors import InputError

__all__ = [
    "BatchStream",
    "Request",
    "SequentialScheme",
    "ShuffledScheme",
    "bernoulli",
    "fixed_sample",
    "probabilities",
    "shuffled_order",
    "uniform_rows",
]

Request = Union[slice, np.ndarray]
"""Which rows make a batch."""

# Keys that keep the random numbers of different purposes apart.
_SHUFFLE = 0x7368_7566
_BINARIZE = 0x6269_6E61
_FIXED = 0x6669_7865

_WORDS_PER_COUNTER = 8
"""A Philox counter gives four 64-bit words, so eight of 32 bits."""


def shuffled_order(examples: int, seed: int, epoch: int) -> np.ndarray:
    """Return the permutation ``(examples,)`` of one epoch, a function of ``(seed, epoch)``."""
    raw = np.random.Philox(key=[seed, (epoch << 32) + _SHUFFLE]).random_raw(examples)
    return np.argsort(raw, kind="stable")


def uniform_rows(key: tuple[int, int], first_row: int, rows: int, dim: int) -> np.ndarray:
    """Return ``(rows, dim)`` float32 uniforms in [0, 1): rows ``first_row`` on of sample ``key``.

    Row ``i`` always uses the same counters, so no row depends on the rows before it.
    """
    counters = -(-dim // _WORDS_PER_COUNTER)
    generator = np.random.Philox(key=list(key))
    if first_row:
        generator.advance(first_row * counters)
    words = generator.random_raw(rows * counters * 4).astype("<u8", copy=False).view("<u4")
    words = words.reshape(rows, counters * _WORDS_PER_COUNTER)[:, :dim]
    # A float32 holds 24 bits exactly, so no value is rounded up to 1.
    return (words >> 8).astype(np.float32) * np.float32(2.0**-24)


def bernoulli(grey: np.ndarray, key: tuple[int, int], first_row: int = 0) -> np.ndarray:
    """Sample 0/1 (boolean) from the probabilities ``grey``, ``(rows, dim)`` in [0, 1]."""
    return uniform_rows(key, first_row, *grey.shape) < grey


def probabilities(rows: np.ndarray, levels: int) -> np.ndarray:
    """Convert stored grey levels ``0..levels`` to float32 probabilities in [0, 1]."""
    result = rows.astype(np.float32)
    if levels != 1:
        result /= np.float32(levels)
    return result


def fixed_sample(rows: np.ndarray, levels: int, purpose: str) -> np.ndarray:
    """Binarize stored grey levels (uint8 result); the same ``purpose`` gives the same sample."""
    key = (_FIXED, zlib.crc32(purpose.encode()))
    result = np.empty(rows.shape, dtype=np.uint8)
    for start in range(0, len(rows), 4096):
        part = slice(start, start + 4096)
        result[part] = bernoulli(probabilities(rows[part], levels), key, start)
    return result


class SequentialScheme:
    """Batches in the order of the array; the last one may be smaller.

    >>> list(SequentialScheme(5, batch_size=2).get_request_iterator())
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """

    def __init__(self, examples: int, batch_size: int) -> None:
        if examples < 1 or batch_size < 1:
            raise InputError(
                f"a stream needs at least one example and a batch size of at least one, got "
                f"{examples} examples in batches of {batch_size}"
            )
        self.examples, self.batch_size = int(examples), int(batch_size)

    @property
    def batches(self) -> int:
        """Number of batches in an epoch, the smaller last one included."""
        return -(-self.examples // self.batch_size)

    def get_request_iterator(self, start: int = 0) -> Iterator[Request]:
        """Return the requests of an epoch from batch number ``start`` on."""
        if not 0 <= start <= self.batches:
            raise InputError(f"batch {start} is outside 0 to {self.batches}, those of an epoch")
        return imap(self._request(), range(start, self.batches))

    def _request(self) -> Callable[[int], Request]:
        return partial(_slice_request, self.examples, self.batch_size)


class ShuffledScheme(SequentialScheme):
    """Batches in the random order given by ``(seed, epoch)``; the last one may be smaller."""

    def __init__(self, examples: int, batch_size: int, seed: int, epoch: int = 0) -> None:
        super().__init__(examples, batch_size)
        self.seed, self.epoch = seed, epoch

    def _request(self) -> Callable[[int], Request]:
        order = shuffled_order(self.examples, self.seed, self.epoch)
        return partial(_index_request, order, self.batch_size)


def _slice_request(examples: int, size: int, batch: int) -> slice:
    return slice(batch * size, min((batch + 1) * size, examples))


def _index_request(order: np.ndarray, size: int, batch: int) -> np.ndarray:
    return order[batch * size : (batch + 1) * size]


class BatchStream:
    """Mini-batches of an array, in shuffled or in sequential order.

    Parameters
    ----------
    array
        ``(examples, dim)``: 0/1 of any type, or float probabilities with ``binarize``. It is not
        copied.
    batch_size
        Examples in a batch; the last batch of an epoch may be smaller.
    seed
        Together with the epoch, decides the order and the binarization.
    shuffled
        Whether each epoch has a random order of its own.
    binarize
        Whether the values are probabilities, sampled again in each epoch.

    >>> stream = BatchStream(np.eye(5, dtype=np.uint8), batch_size=2, seed=0)
    >>> [batch.shape for batch in stream.epoch(0)]
    [(2, 5), (2, 5), (1, 5)]
    >>> all((a == b).all() for a, b in zip(stream.epoch(3, start=1), list(stream.epoch(3))[1:]))
    True
    """

    def __init__(
        self,
        array: np.ndarray,
        batch_size: int,
        seed: int,
        *,
        shuffled: bool = True,
        binarize: bool = False,
    ) -> None:
        if array.ndim != 2:
            raise InputError(f"a stream needs an array (examples, dim), got shape {array.shape}")
        if not 0 <= seed < 2**63:
            raise InputError(f"seed {seed} is not allowed; give one from 0 to 2**63 - 1")
        self.array, self.batch_size, self.seed = array, int(batch_size), int(seed)
        self.shuffled, self.binarize = shuffled, binarize
        self.scheme(0)

    @property
    def batches(self) -> int:
        """Number of batches in an epoch."""
        return self.scheme(0).batches

    def scheme(self, epoch: int) -> SequentialScheme:
        """Return the iteration scheme of ``epoch``."""
        if self.shuffled:
            return ShuffledScheme(len(self.array), self.batch_size, self.seed, epoch)
        return SequentialScheme(len(self.array), self.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[np.ndarray]:
        """Iterate over the batches ``(batch, dim)``, float32, of ``epoch`` from ``start`` on."""
        requests = self.scheme(epoch).get_request_iterator(start)
        return imap(partial(self._read, epoch), requests, count(start))

    def _read(self, epoch: int, request: Request, batch: int) -> np.ndarray:
        """Return the batch with number ``batch``."""
        rows = self.array[request]
        if self.binarize:
            key = (self.seed, (epoch << 32) + _BINARIZE)
            rows = bernoulli(rows, key, batch * self.batch_size)
        # A slice of a float32 array remains a view; everything else is converted once.
        return rows.astype(np.float32, copy=False)

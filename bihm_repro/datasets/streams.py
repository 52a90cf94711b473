"""Data streams in Fuel's sense: float32 mini-batches that can be resumed, repeated and pickled.

A :class:`BatchStream` keeps no position and no generator: ``stream.epoch(epoch, start)`` begins at
any batch of any epoch, so a resumed run sees the batches that an uninterrupted one would have seen.
Grey levels are binarized by a Bernoulli sample that is a function of (seed, epoch, row): a new one
in each epoch, and the same one when the epoch is repeated. The iterators are those of
picklable-itertools, as in Fuel: a stream, or an epoch that has been read in part, can be pickled,
sent to a worker and continued there.

The random bits are the raw output of numpy's Philox generator, which is counter-based, as is the
Threefry of ``ops.random_numbers``, and does not change between versions of numpy. It serves data
alone: what it gives are the batches of the runs in ``results/`` and the published ``bars``, and
another generator would give others.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial

import numpy as np
from picklable_itertools import imap

from bihm_repro.errors import InputError

__all__ = ["BatchStream", "fixed_sample", "probabilities", "shuffled_order"]

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


class BatchStream:
    """Mini-batches of an array, in the random order that ``(seed, epoch)`` gives.

    Parameters
    ----------
    array
        ``(examples, dim)``: 0/1 of any type, or float probabilities with ``binarize``. It is not
        copied.
    batch_size
        Examples in a batch; the last batch of an epoch may be smaller.
    seed
        Together with the epoch, decides the order and the binarization.
    binarize
        Whether the values are probabilities, sampled again in each epoch.

    >>> stream = BatchStream(np.eye(5, dtype=np.uint8), batch_size=2, seed=0)
    >>> [batch.shape for batch in stream.epoch(0)]
    [(2, 5), (2, 5), (1, 5)]
    >>> all((a == b).all() for a, b in zip(stream.epoch(3, start=1), list(stream.epoch(3))[1:]))
    True
    """

    def __init__(
        self, array: np.ndarray, batch_size: int, seed: int, *, binarize: bool = False
    ) -> None:
        if array.ndim != 2 or not len(array):
            raise InputError(
                f"a stream needs an array (examples, dim) with an example, got shape {array.shape}"
            )
        if batch_size < 1 or not 0 <= seed < 2**63:
            raise InputError(
                f"batch size {batch_size} and seed {seed} are not allowed; give a size of at least "
                "1, and a seed from 0 to 2**63 - 1"
            )
        self.array, self.batch_size, self.seed = array, int(batch_size), int(seed)
        self.binarize = binarize

    @property
    def batches(self) -> int:
        """Number of batches in an epoch, the smaller last one included."""
        return -(-len(self.array) // self.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[np.ndarray]:
        """Iterate over the batches ``(batch, dim)``, float32, of ``epoch`` from ``start`` on."""
        if not 0 <= start <= self.batches:
            raise InputError(f"batch {start} is outside 0 to {self.batches}, those of an epoch")
        order = shuffled_order(len(self.array), self.seed, epoch)
        return imap(partial(self._read, epoch, order), range(start, self.batches))

    def _read(self, epoch: int, order: np.ndarray, batch: int) -> np.ndarray:
        """Return the batch with number ``batch``."""
        first = batch * self.batch_size
        rows = self.array[order[first : first + self.batch_size]]
        if self.binarize:
            rows = bernoulli(rows, (self.seed, (epoch << 32) + _BINARIZE), first)
        return rows.astype(np.float32, copy=False)

"""Streams of mini-batches: float32 arrays, the same ones for the same (seed, epoch), resumable.

A stream keeps no position and no generator: ``stream.epoch(epoch, start)`` begins at any batch of
any epoch, so a resumed run sees the batches that an uninterrupted one would have seen. Grey data
are binarized by a Bernoulli draw that is a function of (seed, epoch, row): fresh each epoch, and
the same when the epoch is repeated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from bihm_repro.datasets.draws import bernoulli
from bihm_repro.datasets.schemes import Request, SequentialScheme, ShuffledScheme
from bihm_repro.errors import InputError

__all__ = ["BatchStream"]

_BINARIZE = 0x6269_6E61
"""Sets the binarization's random numbers apart from the shuffling's."""


class BatchStream:
    """Mini-batches of an array, in shuffled or in file order.

    Parameters
    ----------
    array
        ``(examples, dim)``: 0/1 of any type, or float probabilities with ``binarize``. It is not
        copied.
    batch_size
        Examples a batch; the last batch of an epoch is smaller where the division leaves a rest.
    seed
        Together with the epoch's number, decides the order and the binarization.
    shuffled
        Whether each epoch has a random order of its own.
    binarize
        Whether the values are probabilities to draw 0/1 from, afresh each epoch.

    >>> stream = BatchStream(np.eye(5, dtype=np.uint8), batch_size=2, seed=0)
    >>> [batch.shape for batch in stream.epoch(0)]
    [(2, 5), (2, 5), (1, 5)]
    >>> all((a == b).all() for a, b in zip(stream.epoch(3, start=1), list(stream.epoch(3))[1:]))
    True
    """

    def __init__(self, array: np.ndarray, batch_size: int, seed: int, *, shuffled: bool = True,
                 binarize: bool = False) -> None:
        if array.ndim != 2:
            raise InputError(f"a stream needs an array (examples, dim), got shape {array.shape}")
        if not 0 <= seed < 2 ** 63:
            raise InputError(f"seed {seed} is not allowed; give one from 0 to 2**63 - 1")
        SequentialScheme(len(array), batch_size)
        self.array, self.batch_size, self.seed = array, int(batch_size), int(seed)
        self.shuffled, self.binarize = shuffled, binarize

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
        first_rows = itertools.count(start * self.batch_size, self.batch_size)
        return (self._read(request, epoch, row) for request, row in zip(requests, first_rows))

    def _read(self, request: Request, epoch: int, first_row: int) -> np.ndarray:
        """Return one batch; ``first_row`` is its first row's position in the epoch's order."""
        rows = self.array[request]
        if self.binarize:
            key = (self.seed, (epoch << 32) + _BINARIZE)
            rows = bernoulli(rows, key, first_row)
        # A slice of a float32 array goes through as a view; everything else is converted once.
        return rows.astype(np.float32, copy=False)

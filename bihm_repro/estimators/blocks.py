"""Estimates as numbered blocks of samples, whose sums are added in the order of their numbers.

The sums of a block are a function of the model, the settings and the block's number, and they are
always added in the same order. So an estimate is the same to the last bit wherever its blocks are
computed, in whatever order they are ready, and however often it was interrupted.
"""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.estimators.streaming import LogWeights, block_shape
from bihm_repro.models.base import Model
from bihm_repro.progress import progress
from bihm_repro.runs.arrays import check_headers, read_arrays, write_arrays

__all__ = ["Compute", "Estimator", "ProgressFiles", "WeightEstimator", "here", "run_estimator"]

SAVE_SECONDS = 30.0
"""Seconds between two writes of an estimate's progress."""


class Estimator(ABC):
    """An estimate that is made block by block, in constant memory.

    What a subclass must give
    -------------------------
    title : what is estimated
    key : the settings that the sums depend on
    total, count : the number of samples, and of blocks
    arrays : the sums so far, float64 arrays by name that ``add`` changes in place
    size, sums, add, result : see below

    A subclass compiles nothing before ``sums`` is called.
    """

    title: str
    key: str
    total: int
    count: int
    arrays: dict[str, np.ndarray]

    @abstractmethod
    def size(self, number: int) -> int:
        """Return how many samples block ``number`` has."""

    @abstractmethod
    def sums(self, number: int) -> np.ndarray:
        """Draw the samples of block ``number``; return their sums, float64."""

    @abstractmethod
    def add(self, number: int, sums: np.ndarray) -> None:
        """Add the sums of block ``number``; blocks are added in the order of their numbers."""

    @abstractmethod
    def result(self) -> Any:
        """Return the estimate, once all blocks are added."""


class WeightEstimator(Estimator):
    """An estimate from log r = log p(x, h) - log q(h|x), in blocks of examples x samples."""

    def __init__(
        self,
        model: Model,
        x: np.ndarray,
        samples: int,
        seed: int,
        log_weights: LogWeights | None = None,
        block: tuple[int, int] | None = None,
    ) -> None:
        """Estimate for ``x`` (examples, data_dim) with ``samples`` samples each."""
        self.model, self.x, self.samples, self.seed = model, x, samples, seed
        self._given = log_weights
        self.examples, self._per_block = block or block_shape(model, samples)
        self._columns = -(-samples // self._per_block)
        self.count = -(-len(x) // self.examples) * self._columns
        self.total = len(x) * samples
        shape = (self.examples, self._per_block)
        self.key = f"{self.title}: seed {seed}, {len(x)} examples in blocks of {shape}"

    def place(self, number: int) -> tuple[slice, int, int]:
        """Return the examples of block ``number``, and its first sample and the one after it."""
        row, column = divmod(number, self._columns)
        start, first = row * self.examples, column * self._per_block
        examples = slice(start, min(len(self.x), start + self.examples))
        return examples, first, min(self.samples, first + self._per_block)

    def size(self, number: int) -> int:
        """Return how many samples block ``number`` has."""
        examples, first, last = self.place(number)
        return (examples.stop - examples.start) * (last - first)

    def log_r(self, number: int) -> np.ndarray:
        """Draw the log weights (examples, samples) of block ``number``."""
        examples, first, last = self.place(number)
        return self._log_weights(self.x[examples], last - first, number)

    def ends(self, number: int, counts: Sequence[int]) -> list[int]:
        """Return where the parts of block ``number`` end: at each K of ``counts`` and at its end.

        As numbers of samples of an example, those of the blocks before included.
        """
        _, first, last = self.place(number)
        return sorted({*(k for k in counts if first < k < last), last})

    def log_r_parts(self, number: int, counts: Sequence[int]) -> list[np.ndarray]:
        """Draw the log weights of block ``number``, divided where its parts end."""
        log_r, (_, first, _) = self.log_r(number), self.place(number)
        ends = [end - first for end in self.ends(number, counts)]
        return [log_r[:, start:end] for start, end in zip([0, *ends], ends)]

    @cached_property
    def _log_weights(self) -> LogWeights:
        return self._given or LogWeights(self.model, self.seed)


Compute = Callable[[Estimator, Sequence[int]], Iterable[np.ndarray]]
"""Gives the sums of the blocks of an estimator with the numbers given, in their order."""


def here(estimator: Estimator, numbers: Sequence[int]) -> Iterator[np.ndarray]:
    """Compute the sums of blocks in this process."""
    return map(estimator.sums, numbers)


class ProgressFiles:
    """Keeps the sums so far of interrupted estimates, with a key that says what they are of."""

    def __init__(self, folder: Path, key: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Keep them in ``folder``; those with another ``key`` are not used."""
        self.folder, self.key, self._clock = folder, key, clock
        self._last = clock()

    def restore(self, estimator: Estimator) -> int:
        """Bring ``estimator`` to where it was; returns the number of the next block."""
        expected = self._content(estimator, 0)
        try:
            found = read_arrays(
                self._path(estimator), lambda headers: check_headers(headers, expected)
            )
        except (InputError, FileNotFoundError):
            return 0
        following = int(found["next"])
        same = str(found["key"]) == str(expected["key"]) and 0 < following <= estimator.count
        if not same or any(np.isnan(found[name]).any() for name in estimator.arrays):
            return 0
        for name, values in estimator.arrays.items():
            values[...] = found[name]
        return following

    def save(self, estimator: Estimator, following: int, always: bool = False) -> None:
        """Write the sums of the blocks before ``following``, where the last time is long ago."""
        if always or self._clock() - self._last >= SAVE_SECONDS:
            write_arrays(self._path(estimator), self._content(estimator, following))
            self._last = self._clock()

    def remove(self) -> None:
        """Remove the files: the evaluation is complete."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, estimator: Estimator) -> Path:
        return self.folder / f"{estimator.title.replace(' ', '-')}.npz"

    def _content(self, estimator: Estimator, following: int) -> dict[str, np.ndarray]:
        key = np.array(f"{self.key} {estimator.key}")
        return {**estimator.arrays, "key": key, "next": np.array(following)}


def run_estimator(
    estimator: Estimator,
    compute: Compute = here,
    *,
    files: ProgressFiles | None = None,
    quiet: bool = False,
) -> Any:
    """Compute all blocks and return the estimate; with ``files``, continue from what they hold."""
    following = files.restore(estimator) if files else 0
    bar = progress(
        total=estimator.total, desc=estimator.title, unit="sample", unit_scale=True, quiet=quiet
    )
    bar.update(sum(estimator.size(number) for number in range(following)))
    complete = True  # whether the sums are those of all blocks before ``following``
    try:
        numbers = range(following, estimator.count)
        for number, sums in zip(numbers, compute(estimator, numbers)):
            complete = False
            estimator.add(number, sums)
            following, complete = number + 1, True
            bar.update(estimator.size(number))
            if files:
                files.save(estimator, following)
    finally:
        bar.close()
        if files and complete and following:
            files.save(estimator, following, always=True)
    return estimator.result()

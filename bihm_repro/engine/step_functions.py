"""Compiled step functions, called with a sequence of inputs: blocking or asynchronous.

Both call the step with each input in turn and return its values for each. The result does not
depend on how a sequence of inputs is divided into calls; ``group_size`` is the number of inputs
that the next call should be given for speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

__all__ = ["StepFunction", "BlockingSteps", "AsyncSteps"]


class StepFunction(Protocol):
    """A compiled step that takes a sequence of inputs."""

    group_size: int

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the step's values for each of ``inputs``."""


class BlockingSteps:
    """A step that returns when it is done: one input per call is as fast as many."""

    group_size = 1

    def __init__(self, step: Callable[[Any], Any]) -> None:
        """Take the compiled step."""
        self._step = step

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the step's values for each of ``inputs``."""
        return [self._step(x) for x in inputs]


class AsyncSteps:
    """A step that returns before the device has finished: only the last one is waited for.

    The next step is dispatched while the device executes the previous one, which hides the time
    that dispatching takes on the host. ``group_size`` is adapted so that a call takes about
    ``seconds``: whatever is checked between calls (a signal, a time budget) is never delayed for
    long, and steps longer than that have no overhead worth hiding.
    """

    def __init__(
        self,
        step: Callable[[Any], Any],
        fetch: Callable[[list[Any]], list[Any]],
        limit: int = 16,
        seconds: float = 0.05,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Take the compiled step, and ``fetch``, which waits for a list of its values."""
        self.group_size = 1
        self._step, self._fetch = step, fetch
        self._limit, self._seconds, self._clock = limit, seconds, clock

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the step's values for each of ``inputs``."""
        start = self._clock()
        values = self._fetch([self._step(x) for x in inputs])
        each = max(1e-9, (self._clock() - start) / max(1, len(inputs)))
        # At most double the last size: the time of one short batch does not predict the others'.
        self.group_size = max(1, int(min(self._limit, 2 * len(inputs), self._seconds / each)))
        return values

"""A compiled step, called with several inputs in a row: one by one, or with the device kept busy.

Both take a list of inputs, call the step with each in turn, and return its values for each. What
is computed is the same however a sequence is divided into calls; ``at_once`` says how many inputs
a call is best given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["OneByOne", "InFlight"]


class OneByOne:
    """For a step that returns when it is done: nothing is gained by more than one a call."""

    at_once = 1

    def __init__(self, step: Callable[[Any], Any]) -> None:
        """Take the compiled step."""
        self._step = step

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the step's values for each of ``inputs``."""
        return [self._step(x) for x in inputs]


class InFlight:
    """For a step that returns at once while a device works it off: waits for the last one only.

    The next step is then handed over while the device is busy with the one before, and the time
    that a call takes on the host is hidden. ``at_once`` follows the clock: a call with so many
    inputs lasts about ``seconds``, so that whoever looks between calls (a signal, a time budget)
    never waits for long; of steps that last longer than that, there is nothing to hide.
    """

    def __init__(self, step: Callable[[Any], Any], fetch: Callable[[list[Any]], list[Any]],
                 limit: int = 16, seconds: float = 0.05,
                 clock: Callable[[], float] = time.perf_counter) -> None:
        """Take the compiled step, and what waits for a list of its values and fetches them."""
        self.at_once = 1
        self._step, self._fetch = step, fetch
        self._limit, self._seconds, self._clock = limit, seconds, clock

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the step's values for each of ``inputs``."""
        start = self._clock()
        values = self._fetch([self._step(x) for x in inputs])
        each = max(1e-9, (self._clock() - start) / max(1, len(inputs)))
        # At most twice as many as this time: a call with a short input says little of a long one.
        self.at_once = max(1, int(min(self._limit, 2 * len(inputs), self._seconds / each)))
        return values

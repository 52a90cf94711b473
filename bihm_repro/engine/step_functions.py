"""Compiled step functions, called with a sequence of inputs: blocking or asynchronous.

The result does not depend on how a sequence of inputs is divided into calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Steps"]


class Steps:
    """A compiled step that is called with each of a sequence of inputs in turn.

    Without ``fetch`` the step returns when it is done, and one input per call is as fast as many.
    With ``fetch``, which waits for a list of its values, it returns before the device has finished:
    the next step is dispatched while the device executes the previous one, which hides the time
    that dispatching takes on the host.

    ``group_size`` is the number of inputs that the next call should be given for speed. It is
    adapted so that a call takes about ``seconds``: whatever is checked between calls (a signal, a
    time budget) is never delayed for long, and steps longer than that have no overhead worth
    hiding.
    """

    def __init__(
        self,
        step: Callable[[Any], Any],
        fetch: Callable[[list[Any]], list[Any]] | None = None,
        limit: int = 16,
        seconds: float = 0.05,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Take the compiled step; at most ``limit`` inputs make a group."""
        self.group_size = 1
        self._step, self._fetch = step, fetch or list
        self._limit, self._seconds, self._clock = limit if fetch else 1, seconds, clock

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the step's values for each of ``inputs``."""
        start = self._clock()
        values = self._fetch([self._step(x) for x in inputs])
        each = max(1e-9, (self._clock() - start) / max(1, len(inputs)))
        # At most double the last size: the time of one short batch does not predict the others'.
        self.group_size = max(1, int(min(self._limit, 2 * len(inputs), self._seconds / each)))
        return values

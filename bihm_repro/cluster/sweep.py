"""Running many points: on this machine one after the other, or on the workers of a cluster.

Nothing is stored beside the run folders. A worker that dies loses no more than the updates since
the last checkpoint: its point runs again on another worker, from the state in the run folder.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bihm_repro.cluster.connect import connect, threads_of_each
from bihm_repro.cluster.points import Point
from bihm_repro.cluster.training import INTERRUPTED, Launch, Outcome, run_point, stop_points
from bihm_repro.cluster.view import View

__all__ = ["run_points"]

POLL_SECONDS = 0.5
RESUBMISSIONS = 100
"""How often a point is given to a scheduler that has lost too many workers with it."""
STOP_SECONDS = 120
"""How long an interrupted sweep waits for its runs to save their states."""


def run_points(
    points: Sequence[Point],
    cluster: str | None = None,
    threads: int | None = None,
    options: Sequence[str] = (),
) -> dict[Point, Outcome]:
    """Train every point and return how each ended; a point that fails does not stop the others.

    Parameters
    ----------
    cluster : ``local:N`` or a scheduler, see ``connect``; None for one run at a time, here
    threads : of each run; by default the threads of this machine are shared by the workers on it,
        and a worker of another scheduler shares the cores that it may use
    options : further words for ``bihm train``
    """
    threads = threads_of_each(cluster, threads)
    launch = Launch(secrets.token_hex(4), os.getcwd(), threads, tuple(options))
    with _signals() as received:
        if cluster is None:
            return _run_here(points, launch, received)
        with connect(cluster) as client:
            return _Submission(client, points, launch, received).run()


def _run_here(points: Sequence[Point], launch: Launch, received: _Signals) -> dict[Point, Outcome]:
    received.answer = lambda: stop_points(launch.id)
    return {point: run_point(point, launch, capture=False) for point in points}


class _Submission:
    """The points as futures of a cluster."""

    def __init__(
        self, client: Any, points: Sequence[Point], launch: Launch, received: _Signals
    ) -> None:
        self.client, self.launch, self.received = client, launch, received
        self.outcomes: dict[Point, Outcome] = {}
        self.attempts = dict.fromkeys(points, 0)
        self.futures = {point: self._submit(point) for point in points}
        self.view = View(points)

    def _submit(self, point: Point) -> Any:
        self.attempts[point] += 1
        key = f"bihm-{self.launch.id}-{point.name}-{self.attempts[point]}"
        return self.client.submit(run_point, point, self.launch, key=key, pure=False)

    def run(self) -> dict[Point, Outcome]:
        """Wait for all points; on a signal, until their states are saved."""
        deadline = None
        with self.view:
            while self.futures and (deadline is None or time.monotonic() < deadline):
                self._collect()
                self.view.refresh(self._started())
                if self.received.numbers and deadline is None:
                    deadline = time.monotonic() + STOP_SECONDS
                    self.view.say("interrupted: waiting for the runs to save their states")
                    self.client.run(stop_points, self.launch.id, on_error="return")
                time.sleep(POLL_SECONDS)
        left = dict.fromkeys(self.futures, Outcome(INTERRUPTED))
        return {point: {**self.outcomes, **left}[point] for point in self.attempts}

    def _collect(self) -> None:
        """Take the outcomes of the points that have ended."""
        for point, future in list(self.futures.items()):
            if not future.done():
                continue
            outcome = self._outcome(future)
            if outcome is None and self.attempts[point] < RESUBMISSIONS:
                self.futures[point] = self._submit(point)
                continue
            del self.futures[point]
            self.outcomes[point] = outcome or Outcome(1, ("the workers that had it died",))
            self.view.ended(point, self.outcomes[point])

    def _outcome(self, future: Any) -> Outcome | None:
        """Return the outcome, or None where the workers died that had the point."""
        from distributed import KilledWorker

        try:
            return future.result()
        except KilledWorker:
            return None
        except Exception as error:
            lines = str(error).splitlines() or [type(error).__name__]
            return Outcome(1, (lines[0],))

    def _started(self) -> set[Point]:
        """Return the points that workers have begun."""
        keys = {key for found in self.client.processing().values() for key in found}
        return {
            point
            for point, future in self.futures.items()
            if future.key in keys and point.folder.exists()
        }


class _Signals:
    """The signals received, and what to do at once when one comes."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.answer: Any = lambda: None

    def note(self, number: int, frame: Any) -> None:
        """Answer the first signal; the second Ctrl-C ends this process."""
        self.numbers.append(number)
        if self.numbers.count(signal.SIGINT) > 1:
            raise KeyboardInterrupt
        self.answer()


@contextmanager
def _signals() -> Iterator[_Signals]:
    """Collect Ctrl-C and SIGTERM instead of ending by them."""
    received = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, received.note) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

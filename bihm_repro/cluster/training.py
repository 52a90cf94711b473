"""The task of a sweep: one ``bihm train`` in a process of its own, on a worker or right here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from bihm_repro.cluster.points import Point
from bihm_repro.engine.threads import available_cores
from bihm_repro.errors import InputError
from bihm_repro.runs.layout import RunDirectory

__all__ = ["INTERRUPTED", "Launch", "Outcome", "run_point", "stop_points", "threads_of_worker"]

INTERRUPTED = 130
LOCK_SECONDS = 120
"""How long a run folder may be held by the process of a worker that has just died."""

_running: dict[str, set[subprocess.Popen]] = {}
_stopped: set[str] = set()


@dataclass(frozen=True)
class Launch:
    """How to start the points of one sweep, called ``id``.

    threads : of each run; None for the share of a worker's thread in the cores that it may use
    options : further words for ``bihm train``, the same for each point
    """

    id: str
    folder: str
    threads: int | None = None
    options: tuple[str, ...] = ()

    def command(self, point: Point, share: int = 1) -> list[str]:
        """Return the command of ``point`` on a worker that runs ``share`` points at a time."""
        # Dask sets OMP_NUM_THREADS to 1; the option takes precedence over it.
        threads = self.threads or max(1, available_cores() // share)
        start = [sys.executable, "-m", "bihm_repro.cluster.child", "train"]
        return [*start, *point.arguments(), "--threads", str(threads), *self.options]


@dataclass(frozen=True)
class Outcome:
    """How a point ended: exit status 0, 130 where it was interrupted, and the last lines."""

    status: int
    lines: tuple[str, ...] = ()

    @property
    def last_line(self) -> str:
        """What the point said last, or its status."""
        ended = f"ended by signal {-self.status}" if self.status < 0 else f"status {self.status}"
        return self.lines[-1] if self.lines else ended


def run_point(point: Point, launch: Launch, capture: bool = True) -> Outcome:
    """Train ``point`` to its end; with ``capture`` its output is kept, not shown."""
    if launch.id in _stopped:
        return Outcome(INTERRUPTED)
    if not Path(launch.folder).is_dir():
        raise InputError(
            f"{launch.folder}: worker {os.uname().nodename} does not see this folder; workers need "
            "the file system of the machine where the sweep is started"
        )
    _wait_for_lock(Path(launch.folder) / point.folder)
    with subprocess.Popen(
        launch.command(point, threads_of_worker()),
        stdin=subprocess.PIPE,
        cwd=launch.folder,
        text=True,
        errors="replace",
        env=_environment(),
        start_new_session=True,
        stdout=subprocess.PIPE if capture else None,
        stderr=subprocess.STDOUT if capture else None,
    ) as process:
        ours = _running.setdefault(launch.id, set())
        ours.add(process)
        if launch.id in _stopped:
            process.terminate()
        lines = deque((line.strip() for line in process.stdout or ()), maxlen=20)
        status = process.wait()
        ours.discard(process)
    if launch.id in _stopped and status:
        status = INTERRUPTED
    return Outcome(status, tuple(line for line in lines if line))


def stop_points(sweep: str) -> None:
    """Ask the running points of the sweep called ``sweep`` to save and end; start no more."""
    _stopped.add(sweep)
    for process in list(_running.get(sweep, ())):
        process.send_signal(signal.SIGTERM)


def threads_of_worker() -> int:
    """Return how many tasks this process may run at a time."""
    try:
        from distributed import get_worker

        return get_worker().state.nthreads
    except (ImportError, ValueError):
        return 1


def _wait_for_lock(folder: Path) -> None:
    """Wait for the process of a dead worker to save its state and release the folder."""
    end = time.monotonic() + LOCK_SECONDS
    while (folder / ".lock").exists():
        try:
            with RunDirectory(folder).lock():
                return
        except InputError:
            if time.monotonic() > end:
                return  # `bihm train` says who holds it
        time.sleep(0.2)


def _environment() -> dict[str, str]:
    """Let the process find this very package, installed or not."""
    root = str(Path(__file__).resolve().parent.parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

"""Several trainings at once: one process a run, each with its share of threads and time.

Ctrl-C reaches every process of the terminal, and each saves its state; this one only waits. A
SIGTERM is handed on.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["train_all", "train_command"]


def train_all(todo: list[tuple[str, Path]], args: argparse.Namespace,
              budget: float | None) -> int:
    """Train the named recipes into their folders, ``args.jobs`` at a time.

    Returns 0, or 130 where the user interrupted, or else the first failure's status.
    """
    from bihm_repro.engine.threads import available_cores

    jobs = min(args.jobs, len(todo))
    threads = max(1, (args.threads or available_cores()) // jobs)
    share = None if budget is None else budget * jobs / len(todo)
    commands = [train_command(name, path, args, threads, share) for name, path in todo]
    running: list[subprocess.Popen] = []
    with _signals_handed_on(running) as interrupted, ThreadPoolExecutor(jobs) as pool:
        def start(item: tuple[tuple[str, Path], list[str]]) -> int:
            (name, _), command = item
            return 130 if interrupted else _run(command, name if jobs > 1 else "", running)

        statuses = list(pool.map(start, zip(todo, commands)))
    if interrupted or 130 in statuses:
        return 130
    return next((status for status in statuses if status), 0)


def train_command(name: str, path: Path, args: argparse.Namespace, threads: int,
                  seconds: float | None) -> list[str]:
    """Return the command that trains one recipe."""
    command = [sys.executable, "-m", "bihm_repro", "train", name, "--out", str(path),
               "--data", args.data, "--threads", str(threads)]
    command += ["--budget", f"{seconds:.0f}s"] if seconds is not None else []
    command += ["--fresh"] if args.fresh else []
    for option in ("engine", "device"):
        value = getattr(args, option)
        command += [f"--{option}", value] if value else []
    return command


def _run(command: list[str], label: str, running: list[subprocess.Popen]) -> int:
    """Run a command to its end; with a label, each of its lines carries it."""
    pipe: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True} if label else {}
    process = subprocess.Popen(command, env=_environment(), **pipe)
    running.append(process)
    for line in process.stdout or ():
        print(f"{label}: {line}", end="", flush=True)
    status = process.wait()
    running.remove(process)
    return status


def _environment() -> dict[str, str]:
    """Let the process find this very package, installed or not."""
    root = str(Path(__file__).resolve().parent.parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def _signals_handed_on(running: list[subprocess.Popen]) -> Iterator[list[int]]:
    """Collect Ctrl-C and SIGTERM instead of dying of them; the second goes to the processes."""
    received: list[int] = []

    def note(number: int, frame: Any) -> None:
        received.append(number)
        if number == signal.SIGTERM:
            for process in list(running):
                process.terminate()

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

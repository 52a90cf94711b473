"""Interleaved rounds: every contender in turn, one active at a time, best and median of several."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import ExitStack

from benchmarks.architectures import Case
from benchmarks.contenders import CONTENDERS, Contender, Worker, WorkerError

__all__ = ["compile_times", "interleaved", "passing", "tell"]

SETTLE_SECONDS = 0.03
"""Pause between contenders: threads that spin while they wait have gone to sleep by then."""


def tell(text: str) -> None:
    """A line of progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def passing(contenders: tuple = CONTENDERS) -> tuple:
    """Those whose gradients equal numpy's, and why the others are missing, by key."""
    good, missing = [], {}
    for contender in contenders:
        try:
            with Worker(contender) as worker:
                error = worker.ask("check")["relative_error"]
            tell(f"{contender.title}: gradients within {error:.1e} of numpy")
            good.append(contender)
        except WorkerError as problem:
            tell(f"{contender.title}: missing: {problem}")
            missing[contender.key] = str(problem)
    return good, missing


def _count(worker: Worker, seconds: float) -> int:
    """Repetitions that fill a round of `seconds`; also warms the caches up."""
    ms = worker.ask("run", count=1)["ms"]
    return max(1, min(1000, round(1e3 * seconds / ms)))


def interleaved(
    task: str, case: Case, contenders: list, rounds: int, round_seconds: float = 0.4
) -> dict:
    """Key -> best and median ms a repetition, compile seconds and peak memory of its process.

    Each round starts with another contender, so that none always follows the same one.
    """
    able = [contender for contender in contenders if task in contender.tasks]
    with ExitStack() as stack:
        workers, found = {}, {}
        for contender in able:
            worker = stack.enter_context(Worker(contender))
            try:
                seconds = worker.prepare(task, case)
                workers[contender.key] = (worker, _count(worker, round_seconds))
            except WorkerError as problem:
                tell(f"{contender.title}: left out of {case.name}: {problem}")
                continue
            found[contender.key] = {"compile_seconds": seconds}
        times: dict = {key: [] for key in workers}
        order = list(workers)
        for number in range(rounds):
            shift = number % max(1, len(order))
            for key in order[shift:] + order[:shift]:
                worker, count = workers[key]
                time.sleep(SETTLE_SECONDS)
                reply = worker.ask("run", count=count)
                times[key].append(reply["ms"])
                found[key]["peak_mb"] = reply["peak_mb"]
    for key, values in times.items():
        found[key].update(best_ms=min(values), median_ms=statistics.median(values))
    return found


def compile_times(contender: Contender, case: Case) -> dict:
    """Seconds from graph to first update, with an empty compile cache and with a filled one."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = {}
        for state in ("cold", "warm"):
            with Worker(contender, {contender.cache: folder}) as worker:
                seconds[f"{state}_seconds"] = worker.prepare("update", case)
    return seconds

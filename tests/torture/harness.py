"""Runs the cases of a group in forked workers, so that a crash or a hang is a reported failure.

Every case has to end in success or in one line: an InputError or a SetupError. Anything else, more
than ``CPU_SECONDS`` of processor time, ``HANG_SECONDS`` without an answer, or more memory than
``MEMORY`` beyond what the worker started with, is a failure.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bihm_repro.errors import InputError, SetupError

CPU_SECONDS = 20.0
HANG_SECONDS = 240.0
MEMORY = 768 << 20
LONGEST_LINE = 2000
PER_WORKER = 2000
"""Cases after which a worker is replaced, so that what one leaves behind stays small."""


class Failure(AssertionError):
    """What a case found."""


@dataclass(frozen=True)
class Group:
    """A kind of attack: ``prepare(folder)`` once, ``attack(prepared, case)`` for each case."""

    name: str
    share: float
    """The part of the time that it gets, relative to the others."""
    prepare: Callable[[Path], Any]
    attack: Callable[[Any, Case], str]
    last: Callable[[Any], int | None] = lambda prepared: None
    """The number of cases, where there is nothing left to try after them."""


@dataclass(frozen=True)
class Case:
    """The number of a case, its random numbers, an empty folder, and counters to add to."""

    number: int
    random: random.Random
    folder: Path
    counts: Counter = field(default_factory=Counter)


@dataclass
class Report:
    """What the cases of a group came to."""

    cases: int = 0
    outcomes: Counter = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0


def scratch_folder() -> Path:
    """Make a temporary folder, in memory where the system has such a file system."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="torture-", dir=memory))


def run_group(group: Group, seed: str, seconds: float, only: int | None = None) -> Report:
    """Run cases of ``group`` for ``seconds``, or the case ``only``."""
    folder, report = scratch_folder(), Report()
    try:
        prepared = group.prepare(folder)
        start = time.monotonic()
        end, last = start + seconds, group.last(prepared)
        number = 0 if only is None else only
        stop = last if only is None else only + 1
        while (only is not None or time.monotonic() < end) and (stop is None or number < stop):
            upper = number + PER_WORKER if stop is None else min(stop, number + PER_WORKER)
            number = _supervise(group, prepared, seed, folder, (number, upper, end), report)
        report.seconds = time.monotonic() - start
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report


def _supervise(
    group: Group,
    prepared: Any,
    seed: str,
    folder: Path,
    span: tuple[int, int, float],
    report: Report,
) -> int:
    """Run a worker for cases from ``span``; returns the number of the next case."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        ours.close()
        _work(group, prepared, seed, folder, span, theirs)
    theirs.close()
    running, following = None, span[0]
    with ours:
        while True:
            try:
                if not ours.poll(HANG_SECONDS):
                    os.kill(child, signal.SIGKILL)
                    report.failures.append((following, f"no answer in {HANG_SECONDS:g} seconds"))
                    running = None
                    following += 1
                    break
                message = ours.recv()
            except EOFError:
                break
            if message[0] == "begin":
                running = following = message[1]
            else:
                _, number, outcome, failure, counts = message
                report.cases += 1
                report.outcomes.update({outcome: 1, **counts})
                if failure:
                    report.failures.append((number, failure))
                running, following = None, number + 1
    status = os.waitpid(child, 0)[1]
    if running is not None:
        report.cases += 1
        report.failures.append((running, f"the process ended with status {status}"))
        following = running + 1
    return following


def _work(
    group: Group, prepared: Any, seed: str, folder: Path, span: tuple[int, int, float], pipe: Any
) -> None:
    """Run cases and send what they came to; never returns."""
    try:
        _be_quiet()
        limit_memory()
        number, upper, end = span
        while number < upper and (number == span[0] or time.monotonic() < end):
            pipe.send(("begin", number))
            pipe.send(("end", number, *run_case(group, prepared, seed, folder, number)))
            number += 1
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def run_case(
    group: Group, prepared: Any, seed: str, folder: Path, number: int
) -> tuple[str, str, Counter]:
    """Run one case; returns its outcome, what was wrong or "", and its counters."""
    own = folder / f"case-{number}"
    own.mkdir()
    case = Case(number, random.Random(f"{seed}/{group.name}/{number}"), own)
    start, outcome, failure = time.process_time(), "accepted", ""
    try:
        outcome = group.attack(prepared, case)
    except (InputError, SetupError) as error:
        outcome, failure = "refused", fault_of(error)
    except Failure as error:
        outcome, failure = "failed", str(error)
    except Exception as error:
        outcome, failure = "failed", _where(error)
    spent = time.process_time() - start
    if spent > CPU_SECONDS:
        failure = failure or f"took {spent:.1f} seconds"
    shutil.rmtree(own, ignore_errors=True)
    return "failed" if failure else outcome, failure, case.counts


def fault_of(error: BaseException) -> str:
    """Return what is wrong with a refusal: more than a line, or a hidden lack of memory."""
    text, cause = str(error), error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, (MemoryError, RecursionError, SystemError)) and "deep" not in text:
            return f"refused for a {type(cause).__name__}: {text[:300]!r}"
        cause = cause.__cause__ or cause.__context__
    if not text.strip() or len(text.splitlines()) > 1 or len(text) > LONGEST_LINE:
        return f"not one line: {text[:300]!r} ({len(text)} characters)"
    return ""


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = " > ".join(f"{Path(item.filename).name}:{item.lineno}" for item in frames)
    return f"{type(error).__name__}: {str(error)[:300]!r} at {places}"


def _be_quiet() -> None:
    if not os.environ.get("TORTURE_VERBOSE"):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    gc.collect()


def limit_memory() -> None:
    """Allow this process ``MEMORY`` more bytes than it has."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def in_child(work: Callable[[], None]) -> tuple[int, str]:
    """Run ``work`` in a forked child; returns its wait status and its error as a line, or ""."""
    listening, telling = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(listening)
        try:
            work()
        except OSError as error:
            os.write(telling, f"OSError {error.errno}".encode())
        except (InputError, SetupError) as error:
            os.write(telling, f"refused: {error}".encode()[:2000])
        except BaseException as error:
            os.write(telling, f"raised {_where(error)}".encode()[:2000])
        os._exit(0)
    os.close(telling)
    with open(listening, "rb") as handle:
        text = handle.read().decode(errors="replace")
    return os.waitpid(child, 0)[1], text

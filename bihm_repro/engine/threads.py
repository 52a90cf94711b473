"""How many threads, and how they wait.

The fused Ops divide their rows among OpenMP threads and call a single-threaded BLAS in each, so
there is one team of threads and nothing for BLAS threads and OpenMP threads to fight over.
"""

from __future__ import annotations

import os

from bihm_repro.errors import InputError

__all__ = ["available_cores", "thread_count", "prepare_threads"]


def available_cores() -> int:
    """Cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def thread_count() -> int:
    """Threads asked for by ``OMP_NUM_THREADS``, else all cores."""
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if not text:
        return available_cores()
    if not text.isdigit() or int(text) < 1:
        raise InputError(f"OMP_NUM_THREADS={text!r}: a whole number of at least 1 is needed")
    return int(text)


def prepare_threads() -> int:
    """Set the waiting policy before the OpenMP runtime is loaded; returns the thread count."""
    count = thread_count()
    os.environ["OMP_NUM_THREADS"] = str(count)
    # A waiting thread looks for work for some microseconds, then sleeps: another process or
    # another library's threads get the core.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    return count

"""The number of threads, and how they wait.

The fused Ops divide their rows among OpenMP threads and call a single-threaded BLAS in each:
there is one team of threads, so BLAS threads and OpenMP threads do not compete for cores.
"""

from __future__ import annotations

import os

from bihm_repro.errors import InputError

__all__ = ["available_cores", "thread_count", "prepare_threads"]


def available_cores() -> int:
    """Return the number of cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def thread_count() -> int:
    """Return the number of threads in ``OMP_NUM_THREADS``, or all cores."""
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if not text:
        return available_cores()
    if not text.isdigit() or int(text) < 1:
        raise InputError(f"OMP_NUM_THREADS={text!r}: an integer of at least 1 is needed")
    return int(text)


def prepare_threads() -> int:
    """Set the waiting policy before the OpenMP runtime is loaded; return the thread count."""
    count = thread_count()
    os.environ["OMP_NUM_THREADS"] = str(count)
    # A waiting thread spins for some microseconds, then sleeps and frees its core.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    return count

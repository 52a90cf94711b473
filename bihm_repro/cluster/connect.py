"""Where work runs: a Dask cluster on this machine, or a scheduler that is running already."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bihm_repro.engine.threads import thread_count
from bihm_repro.errors import InputError, SetupError
from bihm_repro.progress import say

__all__ = ["FORMS", "check_address", "connect", "local_workers", "threads_of_each"]

FORMS = "local:N, tcp://HOST:PORT or the path of a scheduler file"
CONNECT_SECONDS = 30
LOCAL = {
    # A worker may be killed any number of times: what it did runs again elsewhere.
    "distributed.scheduler.allowed-failures": 1000,
    # On a busy machine the start of a process takes minutes; by default Dask gives up workers
    # that are not back after 15 seconds, and a cluster without workers would wait for ever.
    "distributed.deploy.lost-worker-timeout": "1h",
    "distributed.comm.timeouts.connect": "5m",
}
"""Options of Dask for a cluster of this process."""


def local_workers(address: str) -> int | None:
    """Return the N of ``local:N``; None where ``address`` is that of a scheduler.

    >>> local_workers("local:2")
    2
    """
    kind, _, count = address.partition(":")
    if kind != "local":
        return None
    if not (count.isascii() and count.isdigit()) or not 1 <= int(count[:9]) <= 4096:
        raise InputError(f"--cluster {address}: N is an integer from 1 to 4096, as in local:2")
    return int(count)


def threads_of_each(address: str | None, threads: int | None) -> int | None:
    """Return the threads of each worker's work: ``threads``, or a share of this machine's.

    None where the workers are on other machines: there each takes its share of its own cores.
    """
    workers = 1 if address is None else local_workers(address)
    return max(1, thread_count() // workers) if threads is None and workers else threads


def check_address(address: str) -> None:
    """Refuse what is none of the forms of a cluster's address; needs no Dask."""
    if local_workers(address) is None and "://" not in address and not Path(address).is_file():
        raise InputError(f"--cluster {address}: no such file; give {FORMS}")


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Yield a ``distributed.Client``; a local cluster is started, and closed at the end.

    Workers of a local cluster have one thread, so each does one thing at a time. They ignore
    Ctrl-C, which only the process that the user called answers.
    """
    check_address(address)
    distributed = _import_distributed()
    workers = local_workers(address)
    if workers is not None:
        with (
            _quiet(distributed),
            distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            client.register_plugin(_ignore_interrupts(distributed), name="bihm-interrupts")
            yield client
        return
    where = {"address": address} if "://" in address else {"scheduler_file": address}
    try:
        client = distributed.Client(**where, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"--cluster {address}: no scheduler answers there ({reason}); start one with: "
            "dask scheduler"
        ) from None
    with client:
        if not client.nthreads():
            say(f"{address}: has no workers yet; waiting for them", file=sys.stderr)
        yield client


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise SetupError("a cluster needs Dask: pip install 'bihm-repro[cluster]'") from None
    return distributed


@contextmanager
def _quiet(distributed: Any) -> Iterator[None]:
    """Set Dask's options for a cluster of this process, and let it say little."""
    import dask

    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with dask.config.set(LOCAL):
            yield
    finally:
        logger.setLevel(before)


def _ignore_interrupts(distributed: Any) -> Any:
    class IgnoreInterrupts(distributed.WorkerPlugin):
        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return IgnoreInterrupts()

"""Local clusters: a worker that is killed comes back, however long that takes."""

from __future__ import annotations

import os
import signal

import pytest

from bihm_repro.cluster.connect import connect

SLOW_START = """
import os, time
if os.path.exists({marker!r}):
    time.sleep({seconds})
"""
SECONDS = 20
"""More than the 15 seconds after which Dask gives up a worker by default."""


@pytest.mark.slow
def test_a_killed_worker_that_starts_slowly_comes_back(tmp_path):
    pytest.importorskip("distributed")
    import dask

    marker = tmp_path / "slow"
    (tmp_path / "wait.py").write_text(SLOW_START.format(marker=str(marker), seconds=SECONDS))
    preload = {"distributed.worker.preload": [str(tmp_path / "wait.py")]}
    with dask.config.set(preload), connect("local:1") as client:
        first = client.submit(os.getpid).result(timeout=300)
        marker.touch()
        os.kill(first, signal.SIGKILL)
        second = client.submit(os.getpid, pure=False).result(timeout=300)
        assert second != first

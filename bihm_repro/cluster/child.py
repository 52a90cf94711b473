"""``python -m bihm_repro.cluster.child train ...``: a command that ends when its parent does.

Its standard input is a pipe from the parent. When that closes, because the parent was killed, the
command receives SIGTERM: a training then saves its state and releases the run folder.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading

__all__ = ["end_with_parent"]


def end_with_parent() -> None:
    """Wait until standard input is closed, then ask this process to end."""
    while os.read(0, 4096):
        pass
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # they led to the parent: nothing may fail by writing to them
        os.dup2(nowhere, stream)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    runpy.run_module("bihm_repro", run_name="__main__", alter_sys=True)

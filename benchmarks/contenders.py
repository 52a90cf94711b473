"""The runner's side: which contenders there are, and a process for each.

Every contender gets all cores. Those that the virtual environment `.venv-bench` holds (their
numpy differs) are missing where it was not made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.architectures import Case

__all__ = ["CONTENDERS", "Contender", "Worker", "WorkerError", "find_python"]

ROOT = Path(__file__).resolve().parent.parent
PEERS = ".venv-bench"


@dataclass(frozen=True)
class Contender:
    """A module to run as a worker; `cache` names the variable of its compile cache's folder."""

    key: str
    title: str
    module: str
    peer: bool = False
    cache: str = ""
    tasks: tuple = ("update",)


ESTIMATES = ("update", "log_likelihood", "log_z2")
CONTENDERS = (
    Contender("sgemm", "sgemm floor", "benchmarks.sgemm_floor", tasks=ESTIMATES),
    Contender("ours", "ours", "benchmarks.ours", cache="XDG_CACHE_HOME", tasks=ESTIMATES),
    Contender("jax", "JAX", "benchmarks.peer_jax", True, "JAX_COMPILATION_CACHE_DIR"),
    Contender("torch", "PyTorch", "benchmarks.peer_torch", True),
    Contender("textbook", "textbook Theano", "benchmarks.textbook", cache="XDG_CACHE_HOME"),
)


class WorkerError(RuntimeError):
    """A contender that cannot run, or that died; the message says why."""


def find_python(contender: Contender) -> str:
    """The interpreter that runs the contender."""
    if not contender.peer:
        return sys.executable
    path = ROOT / PEERS / "bin" / "python"
    if not path.exists():
        raise WorkerError(f"{PEERS} is not there; `make bench` makes it")
    return str(path)


def _environment(extra: dict) -> dict:
    """All cores for everybody, whatever the caller's own limits are."""
    cores = str(os.cpu_count() or 1)
    threads = {"OMP_NUM_THREADS": cores, "OPENBLAS_NUM_THREADS": cores, "MKL_NUM_THREADS": cores}
    quiet = {"JAX_PLATFORMS": "cpu", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    return {**os.environ, **threads, **quiet, **extra}


class Worker:
    """A contender's process; a context manager that ends it."""

    def __init__(self, contender: Contender, environment: dict = None):
        self.contender = contender
        self._process = subprocess.Popen(
            [find_python(contender), "-m", contender.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=_environment(environment or {}),
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def ask(self, op: str, **fields) -> dict:
        """The answer to one request; WorkerError where it is not a good one."""
        try:
            self._process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self._process.wait()
            raise WorkerError(
                f"ended with status {status}; `python -m {self.contender.module} --check` says why"
            )
        reply = json.loads(line)
        if not reply["ok"]:
            raise WorkerError(reply.get("error") or f"wrong numbers: {reply}")
        return reply

    def prepare(self, task: str, case: Case) -> float:
        """Compile the task and run it once; returns the seconds that took."""
        return self.ask("prepare", task=task, case=case.to_dict())["compile_seconds"]

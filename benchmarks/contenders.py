"""The runner's side: which contenders there are, and a process for each.

Every contender gets all cores. Those that live in another virtual environment (their numpy
differs) are missing where it was not made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.architectures import Case

__all__ = ["CONTENDERS", "PEERS", "Contender", "Worker", "WorkerError", "find_python"]

ROOT = Path(__file__).resolve().parent.parent
PEERS = ".venv-bench"
SECOND_ENGINE = ".venv-pytensor"


@dataclass(frozen=True)
class Contender:
    """A module to run as a worker.

    `home` is its virtual environment, where it is not ours, `cache` names the variable of its
    compile cache's folder, `settings` are variables of its environment.
    """

    key: str
    title: str
    module: str
    home: str = ""
    cache: str = ""
    tasks: tuple = ("update",)
    settings: dict = field(default_factory=dict, hash=False)


ESTIMATES = ("update", "log_likelihood", "log_z2")
CONTENDERS = (
    Contender("sgemm", "sgemm floor", "benchmarks.sgemm_floor", tasks=ESTIMATES),
    Contender("ours", "ours", "benchmarks.ours", cache="XDG_CACHE_HOME", tasks=ESTIMATES),
    Contender(
        "centred",
        "ours, centred",
        "benchmarks.ours",
        cache="XDG_CACHE_HOME",
        settings={"BIHM_BENCH_CENTRED": "1"},
    ),
    Contender(
        "pytensor",
        "ours, PyTensor",
        "benchmarks.ours",
        SECOND_ENGINE,
        "XDG_CACHE_HOME",
        ESTIMATES,
        {"BIHM_ENGINE": "pytensor", "BIHM_DEVICE": "cpu"},
    ),
    Contender(
        "jax_mode",
        "ours, JAX mode",
        "benchmarks.ours",
        SECOND_ENGINE,
        "XDG_CACHE_HOME",
        settings={"BIHM_ENGINE": "pytensor", "BIHM_DEVICE": "jax-cpu"},
    ),
    Contender("jax", "JAX", "benchmarks.peer_jax", PEERS, "JAX_COMPILATION_CACHE_DIR"),
    Contender("torch", "PyTorch", "benchmarks.peer_torch", PEERS),
    Contender("textbook", "textbook Theano", "benchmarks.textbook", cache="XDG_CACHE_HOME"),
)


class WorkerError(RuntimeError):
    """A contender that cannot run, or that died; the message says why."""


def find_python(home: str) -> str:
    """The interpreter of the virtual environment `home`; ours where none is named.

    Environments are looked for in `BIHM_BENCH_ENVIRONMENTS`, or in the checkout.
    """
    if not home:
        return sys.executable
    path = Path(os.environ.get("BIHM_BENCH_ENVIRONMENTS") or ROOT) / home / "bin" / "python"
    if not path.exists():
        raise WorkerError(f"{home} is not there; `make bench` makes it")
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
            [find_python(contender.home), "-m", contender.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=_environment({**contender.settings, **(environment or {})}),
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

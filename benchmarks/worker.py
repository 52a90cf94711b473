"""The worker side: a contender in its own process, one JSON object a line, in and out.

Requests: `{"op": "check"}`, `{"op": "prepare", "task": ..., "case": {...}}`,
`{"op": "run", "count": n}`, `{"op": "quit"}`. Every answer has `"ok"`, and `"error"` if not ok.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from typing import Callable, TextIO

from benchmarks.architectures import Case

__all__ = ["TOLERANCE", "answer", "main", "peak_megabytes"]

TOLERANCE = 2e-4
"""Largest relative error of float32 gradients against the float64 reference."""


def peak_megabytes() -> float:
    """Peak resident memory of this process.

    Linux's own high-water mark is asked first: getrusage also counts the parent before exec.
    """
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _timed(call: Callable) -> tuple:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def answer(contender, state: dict, request: dict) -> dict:
    """What the contender has to say to one request; `state` keeps what `prepare` made.

    A contender has `check() -> relative error` and `prepare(task, case) -> run`, where
    `run(count)` returns when `count` repetitions of the task are computed.
    """
    if request["op"] == "check":
        error = contender.check()
        return {"ok": error <= TOLERANCE, "relative_error": error}
    if request["op"] == "prepare":
        case = Case.from_dict(request["case"])
        state["run"], seconds = _timed(lambda: contender.prepare(request["task"], case))
        _, first = _timed(lambda: state["run"](1))
        return {"ok": True, "compile_seconds": seconds + first}
    if request["op"] == "run":
        count = int(request["count"])
        _, seconds = _timed(lambda: state["run"](count))
        return {"ok": True, "ms": 1e3 * seconds / count, "peak_mb": peak_megabytes()}
    return {"ok": False, "error": f"unknown op {request['op']!r}"}


def _serve(contender, lines: TextIO, out: TextIO) -> None:
    state: dict = {}
    for line in lines:
        request = json.loads(line)
        if request["op"] == "quit":
            break
        try:
            reply = answer(contender, state, request)
        except Exception as error:  # noqa: BLE001 - whatever went wrong is the runner's to report
            reply = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=out, flush=True)


def main(make_contender: Callable) -> int:
    """Entry point of a contender's module: `--check` once, or serve standard input.

    Standard output is kept for answers alone: what libraries print goes to standard error.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="compare with numpy and exit")
    arguments = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    contender = make_contender()
    if arguments.check:
        reply = answer(contender, {}, {"op": "check"})
        print(json.dumps(reply), file=out, flush=True)
        return 0 if reply["ok"] else 1
    _serve(contender, sys.stdin, out)
    return 0

"""`python -m benchmarks.run`: measures everything, prints tables, writes results/bench.*."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.architectures import LAYERS, Case, cases, find_case
from benchmarks.contenders import ROOT
from benchmarks.growth import evaluation_memory, growth
from benchmarks.machine import describe
from benchmarks.measure import compile_times, interleaved, passing, tell
from benchmarks.report import bench_json, chart, tables
from bihm_repro.files import write_json, written_atomically

__all__ = ["main"]

LIKELIHOOD_SAMPLES = 1000
LIKELIHOOD_EXAMPLES = 20
Z_SAMPLES = 100_000


def _arguments(given: list = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="mnist at K=10 only, few rounds, no compile times, no scaling",
    )
    parser.add_argument("--rounds", type=int, help="rounds a case (default 8; quick 3)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="CASE",
        help="an update case such as mnist-K10; may be given again",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="folder to write to")
    arguments = parser.parse_args(given)
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: at least 1 is needed")
    try:
        names = arguments.only or (["mnist-K10"] if arguments.quick else None)
        arguments.cases = [find_case(name) for name in names] if names else cases()
    except ValueError as error:
        parser.error(str(error))
    arguments.rounds = arguments.rounds or (3 if arguments.quick else 8)
    return arguments


def _update_entries(arguments, contenders: list) -> Iterator[tuple]:
    for case in arguments.cases:
        tell(f"update: {case.name}")
        found = interleaved("update", case, contenders, arguments.rounds)
        yield case.name, {"samples": case.batch * case.samples, "found": found}


def _estimate_entries(task: str, arguments, contenders: list) -> Iterator[tuple]:
    """Log-likelihood or 2 log Z, for the models of the chosen cases."""
    z_samples = Z_SAMPLES // 5 if arguments.quick else Z_SAMPLES
    for model in dict.fromkeys(case.model for case in arguments.cases):
        tell(f"{task}: {model}")
        if task == "log_z2":
            case = Case(model, *LAYERS[model], z_samples, 1)
        else:
            case = Case(model, *LAYERS[model], LIKELIHOOD_SAMPLES, LIKELIHOOD_EXAMPLES)
        found = interleaved(task, case, contenders, max(2, arguments.rounds // 2), 1.0)
        yield model, {"samples": case.batch * case.samples, "found": found}


def _compile_entries(case: Case, contenders: list) -> dict:
    entries = {}
    for contender in contenders:
        if contender.cache:
            tell(f"compile time: {contender.title}")
            entries[contender.key] = {"case": case.name, **compile_times(contender, case)}
    return entries


def measure(arguments: argparse.Namespace) -> Iterator[dict]:
    """The content of bench.json so far, again and again as it grows."""
    extra = {"machine": describe()}
    contenders, extra["missing"] = passing()
    measured: dict = {"update": {}, "log_likelihood": {}, "log_z2": {}}
    for task, entries in measured.items():
        if task == "update":
            parts = _update_entries(arguments, contenders)
        else:
            parts = _estimate_entries(task, arguments, contenders)
        for name, entry in parts:
            entries[name] = entry
            yield bench_json(measured, extra)
    if arguments.quick:
        return
    pair = [contender for contender in contenders if contender.key in ("sgemm", "ours")]
    further = {
        "compile": lambda: _compile_entries(arguments.cases[0], contenders),
        "scaling": lambda: growth(pair, max(2, arguments.rounds // 2)),
        "evaluation_memory": lambda: evaluation_memory(pair),
    }
    for name, part in further.items():
        extra[name] = part()
        yield bench_json(measured, extra)


def main(given: list = None) -> int:
    """Measure, print and write; returns the exit status."""
    arguments = _arguments(given)
    for content in measure(arguments):
        # Written as it grows, so that an interrupted run is not lost.
        write_json(arguments.out / "bench.json", content)
    print(tables(content))
    with written_atomically(arguments.out / "bench.png") as temporary:
        chart(content, temporary)
    print(f"\nwritten: {arguments.out / 'bench.json'}, {arguments.out / 'bench.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

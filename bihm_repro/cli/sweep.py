"""``bihm sweep``: recipes x seeds x settings, each an ordinary run, here or on a cluster."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bihm_repro.cli.arguments import add_shared, option_words
from bihm_repro.progress import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bihm_repro.cluster.points import Point
    from bihm_repro.cluster.training import Outcome

HELP = "train many runs: recipes x seeds x settings, here or on a cluster"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add = parser.add_argument
    add("recipes", nargs="+", metavar="RECIPE", help="paths of recipes, or names in run_exps/")
    add("--seeds", metavar="LIST", help="seeds, such as 0-4 or 1,3,5")
    add(
        "--grid",
        action="append",
        default=[],
        metavar="A.B=V1,V2",
        help="values of a setting, such as training.l1=1e-3,4e-3 or "
        "model.layers=[[200,100],[200]]; may be repeated",
    )
    add(
        "--cluster",
        metavar="WHERE",
        help="local:N for N workers here, tcp://HOST:PORT or a scheduler file "
        "(default: one run at a time, without workers)",
    )
    add("--threads", type=int, help="threads of each run (default: its worker's share of cores)")
    add_shared(parser, "results", "fresh", "no-evaluate", "data", "engine", "device")


def run(args: argparse.Namespace) -> int:
    """Train what is missing, then print the table; 130 where the sweep was interrupted."""
    from bihm_repro.cluster.connect import check_address
    from bihm_repro.cluster.points import parse_seeds, sweep_points
    from bihm_repro.datasets.dataset import load_dataset
    from bihm_repro.engine.choice import choose

    choose(args.engine, args.device, args.threads)
    if args.cluster is not None:
        check_address(args.cluster)
    seeds = parse_seeds(args.seeds) if args.seeds is not None else ()
    points = sweep_points(args.recipes, seeds, args.grid, args.results)
    for name in dict.fromkeys(point.load().dataset for point in points):
        load_dataset(name, args.data)  # a missing one is said before anything starts
    options = ["--no-evaluate"] if args.no_evaluate else []
    outcomes = train_points(points, args, options, threads=args.threads)
    status = _report(points, outcomes, _command(args))
    _print_table(points, args)
    return status


def train_points(
    points: Sequence[Point],
    args: argparse.Namespace,
    options: Sequence[str] = (),
    *,
    threads: int | None = None,
) -> dict[Point, Outcome]:
    """Train the points that are not complete, by the options that ``args`` has."""
    from bihm_repro.cluster.sweep import run_points
    from bihm_repro.runs.layout import RunDirectory

    missing, evaluated = list(points), "--no-evaluate" not in options
    if args.fresh:
        for point in points:
            if moved := RunDirectory(point.folder).move_aside():
                say(f"{point.folder}: the run that was here is now in {moved}")
    else:
        missing = [point for point in points if not point.is_complete(evaluated)]
        for point in points:
            if point not in missing:
                say(f"{point.name}: {point.folder} is up to date")
    words = ["--data", args.data, *options]
    words += option_words(args, "engine", "device")
    return run_points(missing, args.cluster, threads, words) if missing else {}


def _report(points: Sequence[Point], outcomes: dict[Point, Outcome], command: str) -> int:
    """Say what failed and how to continue; returns the exit status."""
    from bihm_repro.cluster.training import INTERRUPTED

    left = {point: outcome for point, outcome in outcomes.items() if outcome.status}
    failed = {point: out for point, out in left.items() if out.status != INTERRUPTED}
    for point, outcome in failed.items():
        say(f"{point.folder}: failed: {outcome.last_line}", file=sys.stderr)
    if not left:
        return 0
    say(
        f"{len(points) - len(left)} of {len(points)} runs are complete, {len(failed)} failed; "
        f"train the others with the same command: {command}"
    )
    return INTERRUPTED if len(failed) < len(left) else 1


def _command(args: argparse.Namespace) -> str:
    """Return the command that continues this sweep."""
    words = ["bihm", "sweep", *args.recipes]
    for values in args.grid:
        words += ["--grid", values]
    names = "seeds", "cluster", "threads", "engine", "device"
    words += option_words(args, *names, results="results", data="data")
    return shlex.join([*words, *(["--no-evaluate"] if args.no_evaluate else [])])


def _print_table(points: Sequence[Point], args: argparse.Namespace) -> None:
    """Print the runs by validation log p; write the table as Markdown and CSV, and the curves."""
    from bihm_repro.report.compare import comparison_table, read_named_runs, write_comparison
    from bihm_repro.report.tables.table import to_markdown
    from bihm_repro.runs.layout import RunDirectory

    started = [point.folder for point in points if RunDirectory(point.folder).exists]
    if not started:
        return
    runs, complaints = read_named_runs(started)
    print("\n" + to_markdown(comparison_table(runs)))
    paths, missing = write_comparison(runs, Path(args.results) / "sweep")
    for line in (*complaints, *missing):
        say(line, file=sys.stderr)
    say(f"written: {', '.join(map(str, paths))}")

"""``bihm figures``: the paper's figures from our own runs, with the numbers behind them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bihm_repro.cli.arguments import add_shared

HELP = "plot the figures as PNG and PDF, with their numbers as CSV, from the run folders"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add(
        "names",
        nargs="*",
        metavar="NAME",
        help="samples, inpainting, partition-function, learning-curves, faces, "
        "faces-inpainting, letters, uci; all of them where none is named",
    )
    add_shared(parser, "results")
    add("--out", help="where the files are written (RESULTS/figures)")
    add("--data", default="data", help="the folder of the data sets, for the images of inpainting")


def run(args: argparse.Namespace) -> int:
    """Plot the figures, and say what is missing and why."""
    from bihm_repro.progress import progress
    from bihm_repro.report.figures import chosen_figures, make_figure
    from bihm_repro.runs.reader import read_runs

    names = chosen_figures(args.names)
    runs, lines = read_runs(args.results)
    folder = Path(args.out or Path(args.results) / "figures")
    for name in progress(names, desc="figures", unit="figure"):
        paths, missing = make_figure(name, runs, folder, args.data)
        if paths:
            print(f"{name}: {', '.join(str(path) for path in paths)}")
        lines += [f"{name}: {'left out' if paths else 'not plotted'}: {line}" for line in missing]
    for line in lines:
        print(line, file=sys.stderr)
    return 0

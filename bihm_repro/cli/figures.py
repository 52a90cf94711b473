"""``bihm figures``: the paper's figures from our own runs, with the numbers behind them."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "draw the figures as PNG and PDF, with their numbers as CSV, from the run folders"

__all__ = ["HELP", "add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="samples, inpainting, partition-function, learning-curves, faces, "
                        "faces-inpainting, letters, uci; all of them where none is named")
    parser.add_argument("--results", default="results", help="the folder of the run folders")
    parser.add_argument("--out", default=None,
                        help="where the files go (RESULTS/figures where not given)")
    parser.add_argument("--data", default="data",
                        help="the folder of the data sets; inpainting takes test images from it")


def run(args: argparse.Namespace) -> int:
    """Draw the figures, and say what was left out and why."""
    import sys

    from bihm_repro.progress import progress
    from bihm_repro.report.figures.catalogue import chosen_figures, make_figure
    from bihm_repro.runs.reader import read_runs

    names = chosen_figures(args.names)
    runs, complaints = read_runs(args.results)
    folder = Path(args.out or Path(args.results) / "figures")
    lines = []
    for name in progress(names, desc="figures", unit="figure"):
        paths, left_out = make_figure(name, runs, folder, args.data)
        if paths:
            print(f"{name}: {', '.join(str(path) for path in paths)}")
        lines += [f"{name}: left out: {line}" if paths else
                  f"{name}: not drawn: {line}" for line in left_out]
    for line in [*complaints, *lines]:
        print(line, file=sys.stderr)
    return 0

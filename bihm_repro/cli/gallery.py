"""``bihm gallery``: one HTML file with all results."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "write one HTML page with the tables, figures, animations and runs"

__all__ = ["HELP", "add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--results", default="results", help="the folder of the run folders")
    parser.add_argument("--out", help="the page (RESULTS/gallery/index.html)")


def run(args: argparse.Namespace) -> int:
    """Write the page and print its path."""
    from bihm_repro.files import write_text
    from bihm_repro.report.pages.gallery import build_gallery
    from bihm_repro.runs.reader import read_runs

    runs, complaints = read_runs(args.results)
    path = Path(args.out or Path(args.results) / "gallery" / "index.html")
    write_text(path, build_gallery(runs, args.results, complaints, path))
    for line in complaints:
        print(line, file=sys.stderr)
    print(f"{path}: {len(runs)} runs, {path.stat().st_size / 1e6:.1f} MB")
    return 0

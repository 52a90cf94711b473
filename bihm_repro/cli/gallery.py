"""``bihm gallery``: one HTML file with all results."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bihm_repro.cli.arguments import add_shared

HELP = "write one HTML page with the tables, figures, animations and runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add_shared(parser, "results")
    add("--out", help="the page (RESULTS/gallery/index.html)")


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

"""``bihm gallery``: one HTML file with all results, to look at or to send."""

from __future__ import annotations

import argparse

HELP = "write one HTML page with the tables, figures, animations and runs"

__all__ = ["HELP", "add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--results", default="results", help="the folder of the run folders")
    parser.add_argument("--out", default=None,
                        help="the page (RESULTS/gallery/index.html where not given)")


def run(args: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    from pathlib import Path

    from bihm_repro.files import write_text
    from bihm_repro.report.gallery import build_gallery
    from bihm_repro.runs.reader import read_runs

    runs, complaints = read_runs(args.results)
    path = Path(args.out or Path(args.results) / "gallery" / "index.html")
    write_text(path, build_gallery(runs, args.results, complaints))
    print(f"{path}: {len(runs)} runs, {path.stat().st_size / 1e6:.1f} MB")
    return 0

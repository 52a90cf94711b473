"""``bihm compare``: run folders side by side, the best on validation first."""

from __future__ import annotations

import argparse
import sys

HELP = "compare runs: validation, what differs in their recipes, curves"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="run folders")
    add("--out", default="comparison", help="folder of comparison.md, .csv and .png")


def run(args: argparse.Namespace) -> int:
    """Print the table as Markdown, and write it with the curves."""
    from bihm_repro.report.compare import comparison_table, read_named_runs, write_comparison
    from bihm_repro.report.tables.table import to_markdown

    runs, complaints = read_named_runs(args.runs)
    print(to_markdown(comparison_table(runs)))
    paths, missing = write_comparison(runs, args.out)
    for line in (*complaints, *missing):
        print(line, file=sys.stderr)
    print(f"written: {', '.join(map(str, paths))}", file=sys.stderr)
    return 0

"""``bihm tables``: our numbers beside the paper's, from run folders alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bihm_repro.cli.arguments import add_shared

HELP = "print and write the tables, from the run folders alone"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    names = "uci, mnist, ess, contest, runs or all"
    add("groups", nargs="*", default=["all"], metavar="GROUP", help=names)
    add_shared(parser, "results")
    add("--out", help="where .md, .csv and .tex are written (RESULTS/tables)")
    add("--readme", metavar="FILE", help="also put the results between the markers of this file")


def run(args: argparse.Namespace) -> int:
    """Print the tables as Markdown, write them in three formats, and write the claims page."""
    from bihm_repro.errors import InputError
    from bihm_repro.files import write_text
    from bihm_repro.report.claims import claims_page
    from bihm_repro.report.tables import (
        build_tables,
        readme_block,
        replace_readme_block,
        write_tables,
    )
    from bihm_repro.report.tables.table import to_markdown
    from bihm_repro.runs.reader import read_runs

    runs, complaints = read_runs(args.results)
    tables = build_tables(runs, args.groups)
    print("\n".join(to_markdown(table) for table in tables))
    written = write_tables(tables, args.out or Path(args.results) / "tables")
    for line in complaints:
        print(line, file=sys.stderr)
    print(f"{len(written)} files written to {written[0].parent}", file=sys.stderr)
    if "all" in args.groups or not args.groups:
        page = Path(args.out or args.results) / "claims.md"
        write_text(page, claims_page(runs))
        print(f"{page}: the paper's claims", file=sys.stderr)
    if args.readme:
        readme = Path(args.readme)
        if not readme.is_file():
            raise InputError(f"{readme}: no such file; --readme takes the README to be changed")
        text = readme.read_text(encoding="utf-8")
        write_text(readme, replace_readme_block(text, readme_block(runs), str(readme)))
        print(f"{readme}: results brought up to date", file=sys.stderr)
    return 0

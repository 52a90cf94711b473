"""``bihm watch``: a page on runs in progress that a browser keeps up to date by itself."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from bihm_repro.cli.arguments import integer

HELP = "keep an HTML page on runs in progress up to date: status and curves"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="run folders")
    add("--out", help="the page (watch.html in the first run folder)")
    add("--every", type=integer(1), default=30, metavar="SECONDS", help="how often it is rewritten")
    add("--once", action="store_true", help="write the page once and end")


def run(args: argparse.Namespace) -> int:
    """Rewrite the page until training has ended, or until interrupted."""
    from bihm_repro.errors import InputError
    from bihm_repro.files import write_text
    from bihm_repro.report.pages.watch import build_watch

    missing = [path for path in args.runs if not Path(path).is_dir()]
    if missing:
        raise InputError(f"{missing[0]}: no such folder; give the folder of a run")
    path = Path(args.out or Path(args.runs[0]) / "watch.html")
    print(f"{path}: open it in a browser; it is rewritten every {args.every} s", flush=True)
    while True:
        page, ended = build_watch(args.runs, args.every)
        write_text(path, page)
        if ended or args.once:
            return 0
        time.sleep(args.every)

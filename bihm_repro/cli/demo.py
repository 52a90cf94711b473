"""``bihm demo``: a page in which the model of a run samples and completes images."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "write one HTML page in which the model of a run is live: no server, no network"


EXAMPLES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add = parser.add_argument
    add("run", metavar="RUN", help="a run folder of a bihm model")
    add("--out", help="the page (RUN/demo.html)")
    add("--data", default="data", help="the folder of the data sets, for some test examples")


def run(args: argparse.Namespace) -> int:
    """Write the page and print its path."""
    from bihm_repro.errors import InputError
    from bihm_repro.files import write_text
    from bihm_repro.report.figures.images import random_test_images
    from bihm_repro.report.pages.demo import build_demo
    from bihm_repro.runs.reader import read_run

    found = read_run(args.run)
    try:
        examples = random_test_images(found, EXAMPLES, args.data)
    except InputError as error:
        examples = None
        print(f"{args.run}: the page has no test examples ({error})", file=sys.stderr)
    path = Path(args.out or found.path / "demo.html")
    write_text(path, build_demo(found, examples))
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    return 0

"""``bihm data``: fetch, check and convert data sets, list them, import one's own."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bihm_repro.cli.arguments import integer
from bihm_repro.errors import InputError, SetupError

if TYPE_CHECKING:
    from bihm_repro.datasets.load import Dataset

__all__ = ["HELP", "add_arguments", "run"]

HELP = ("Fetch data sets and convert them to data/NAME.hdf5: `data NAME...`, `data all`, "
        "`data list`, `data import FILE --name NAME`.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``bihm data``."""
    parser.add_argument("names", nargs="+", metavar="NAME",
                        help="data sets of the catalogue, or `all`, or `list`, or `import FILE`")
    parser.add_argument("--mirror", default=os.environ.get("BIHM_DATA_MIRROR") or None,
                        metavar="DIR_OR_URL",
                        help="folder or address tried before the public ones (BIHM_DATA_MIRROR)")
    parser.add_argument("--out", default="data", metavar="DIR", help="folder of the data files")
    parser.add_argument("--fresh", action="store_true", help="convert again what is there already")
    parser.add_argument("--file", metavar="FILE",
                        help="a raw file of your own to convert, for one named set (tfd)")
    own = parser.add_argument_group("import")
    own.add_argument("--name", help="the imported set's name")
    own.add_argument("--valid-fraction", type=float, default=0.1, metavar="F",
                     help="share of the rows for valid, where the file has no such split")
    own.add_argument("--test-fraction", type=float, default=0.1, metavar="F",
                     help="share of the rows for test, where the file has no such split")
    own.add_argument("--seed", type=integer(), default=0, help="of the random split")


def describe(dataset: Dataset, path: Path) -> str:
    """Return one line on a data file: counts, fingerprint, exactness."""
    from bihm_repro.datasets.fingerprints import SHORT

    counts = " / ".join(str(len(dataset.splits[name])) for name in ("train", "valid", "test"))
    note = f" ({dataset.note})" if dataset.note else ""
    return (f"{dataset.name:<16} {dataset.dim:>5} x {counts:<24} "
            f"{dataset.fingerprint[:SHORT]}  {dataset.exactness}{note}  {path}")


def _report(line: str) -> None:
    print(f"bihm: warning: {' '.join(line.split())}", file=sys.stderr)


def _list(args: argparse.Namespace) -> int:
    from bihm_repro.datasets.catalogue import CATALOGUE

    folder = Path(args.out)
    for entry in CATALOGUE.values():
        sizes = " / ".join(map(str, entry.sizes.values()))
        there = "here" if (folder / f"{entry.name}.hdf5").is_file() else "-"
        print(f"{entry.name:<16} {entry.dim:>5} x {sizes:<24} {there:<5} {entry.title}")
    imported = sorted(path.stem for path in folder.glob("*.hdf5")
                      if path.stem not in CATALOGUE and not path.name.startswith("."))
    if imported:
        print(f"imported: {', '.join(imported)}")
    return 0


def _convert(name: str, args: argparse.Namespace, unreachable: set[str]) -> None:
    from bihm_repro.datasets.convert import convert

    result = convert(name, args.out, mirror=args.mirror, file=args.file, fresh=args.fresh,
                     report=_report, unreachable=unreachable)
    reused = "  (there already)" if result.reused else ""
    print(describe(result.dataset, result.path) + reused, flush=True)


def _all(args: argparse.Namespace) -> int:
    """Convert what can be had; a set that cannot is reported and does not stop the rest."""
    from bihm_repro.datasets.catalogue import CATALOGUE

    made, missing, unreachable = [], [], set()
    for name in CATALOGUE:
        try:
            _convert(name, args, unreachable)
            made.append(name)
        except (InputError, SetupError) as error:
            missing.append(name)
            print(f"{name:<16} not made: {' '.join(str(error).split())}", flush=True)
    print(f"{len(made)} data sets in {args.out}/"
          + (f"; not obtainable here: {', '.join(missing)}" if missing else ""))
    if len(made) <= 1:
        raise SetupError("no data set but the generated one could be had; give a mirror with "
                         "--mirror FOLDER_OR_URL, or check the network")
    return 0


def _import(args: argparse.Namespace) -> int:
    from bihm_repro.datasets.own import import_file

    if len(args.names) != 2 or not args.name:
        raise InputError("import takes one file and a name: bihm data import FILE --name NAME")
    path, dataset = import_file(args.names[1], args.name, args.out, seed=args.seed,
                                valid_fraction=args.valid_fraction,
                                test_fraction=args.test_fraction, fresh=args.fresh)
    print(describe(dataset, path))
    return 0


def run(args: argparse.Namespace) -> int:
    """Run ``bihm data``; 0 where every named set is there afterwards."""
    first, several = args.names[0], len(args.names) > 1
    if first == "import":
        return _import(args)
    if args.file and (several or first in ("all", "list")):
        raise InputError("--file goes with exactly one data set, as in `bihm data tfd --file "
                         "TFD_48x48.mat`")
    if first in ("all", "list") and several:
        raise InputError(f"`{first}` takes no further names, got {' '.join(args.names[1:])}")
    if first in ("all", "list"):
        return _all(args) if first == "all" else _list(args)
    from bihm_repro.datasets.catalogue import find_entry

    for name in args.names:
        find_entry(name)
    unreachable: set[str] = set()
    for name in args.names:
        _convert(name, args, unreachable)
    return 0

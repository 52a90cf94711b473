"""``bihm data``: fetch, check and convert data sets, list them, import a user's own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bihm_repro.cli.arguments import add_shared, integer
from bihm_repro.errors import InputError, SetupError
from bihm_repro.progress import printable

if TYPE_CHECKING:
    from bihm_repro.datasets.dataset import Dataset


HELP = (
    "Fetch data sets and convert them to data/NAME.hdf5: `data NAME...`, `data all`, "
    "`data list`, `data import FILE --name NAME`."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line of ``bihm data``."""
    add = parser.add_argument
    add("names", nargs="+", metavar="NAME", help="data sets, or `all`, `list` or `import FILE`")
    add_shared(parser, "mirror")
    add("--out", default="data", metavar="DIR", help="folder of the data files")
    add("--fresh", action="store_true", help="convert again what exists already")
    add("--file", metavar="FILE", help="your own raw file of one registered set (tfd, fer2013)")
    _add_import_arguments(parser.add_argument_group("import"))


def _add_import_arguments(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--name", help="the name of the imported set")
    add("--sep", metavar="CHAR", help="separator of a text table (guessed; `tab`, `space`)")
    add("--header", choices=("yes", "no"), help="whether its first line has column names (guessed)")
    add(
        "--drop",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns that are not features, by name, or by number from 0 without names",
    )
    add("--label", metavar="COLUMN", help="the column of class labels: it is left out")
    add(
        "--scale",
        type=float,
        nargs="?",
        const=255.0,
        metavar="MAX",
        help="divide the values by MAX (255 where not given): grey levels",
    )
    add("--threshold", type=float, metavar="T", help="binarize: values above T become 1")
    for split in ("valid", "test"):
        text = f"share of the rows for {split}, where the file has no such split"
        add(f"--{split}-fraction", type=float, default=0.1, metavar="F", help=text)
    add("--seed", type=integer(), default=0, help="of the random split")


def describe(dataset: Dataset, path: Path) -> str:
    """Return one line on a data file: counts, fingerprint, exactness."""
    from bihm_repro.datasets.checks import SHORT

    counts = " / ".join(str(len(dataset.splits[name])) for name in ("train", "valid", "test"))
    note = f" ({dataset.note})" if dataset.note else ""
    return printable(
        f"{dataset.name:<16} {dataset.dim:>5} x {counts:<24} "
        f"{dataset.fingerprint[:SHORT]}  {dataset.exactness}{note}  {path}"
    )


def _report(line: str, kind: str = "warning") -> None:
    print(f"bihm: {kind}: {printable(' '.join(line.split()))}", file=sys.stderr)


def _list(args: argparse.Namespace) -> int:
    from bihm_repro.datasets.registry import DATASETS

    folder = Path(args.out)
    for info in DATASETS.values():
        sizes = " / ".join(map(str, info.sizes.values()))
        there = "here" if (folder / f"{info.name}.hdf5").is_file() else "-"
        print(f"{info.name:<16} {info.dim:>5} x {sizes:<24} {there:<5} {info.title}")
    imported = sorted(
        path.stem
        for path in folder.glob("*.hdf5")
        if path.stem not in DATASETS and not path.name.startswith(".")
    )
    if imported:
        print(f"imported: {printable(', '.join(imported))}")
    return 0


def _convert(name: str, args: argparse.Namespace, unreachable: set[str]) -> None:
    from bihm_repro.datasets.convert import convert

    given = {name: getattr(args, name) for name in ("mirror", "file", "fresh")}
    result = convert(name, args.out, **given, report=_report, unreachable=unreachable)
    reused = "  (up to date)" if result.reused else ""
    print(describe(result.dataset, result.path) + reused, flush=True)


def _all(args: argparse.Namespace) -> int:
    """Convert what can be obtained; a set that cannot is reported and does not stop the rest."""
    from bihm_repro.datasets.registry import DATASETS

    made, missing = [], []
    unreachable: set[str] = set()
    for name in DATASETS:
        try:
            _convert(name, args, unreachable)
            made.append(name)
        except (InputError, SetupError) as error:
            missing.append(name)
            print(f"{name:<16} not made: {printable(' '.join(str(error).split()))}", flush=True)
    print(
        f"{len(made)} data sets in {args.out}/"
        + (f"; not obtainable here: {', '.join(missing)}" if missing else "")
    )
    if len(made) <= 1:
        raise SetupError(
            "no data set but the generated one could be obtained; give a mirror with --mirror "
            "FOLDER_OR_URL, or check the network"
        )
    return 0


def _import(args: argparse.Namespace) -> int:
    from bihm_repro.datasets.user_data import ImportOptions, import_file

    if len(args.names) != 2 or not args.name:
        raise InputError("import takes one file and a name: bihm data import FILE --name NAME")
    if args.scale is not None and args.threshold is not None:
        raise InputError("--scale and --threshold exclude each other: give one of them")
    if args.sep and len(args.sep) != 1 and args.sep not in ("tab", "space"):
        raise InputError(f"--sep {args.sep!r}: give one character, or `tab`, or `space`")
    if args.scale is not None and not 0 < args.scale < float("inf"):
        raise InputError(f"--scale {args.scale}: give a positive number, such as 255")
    options = ImportOptions(
        separator={"tab": "\t", "space": r"\s+"}.get(args.sep, args.sep) or None,
        header=None if args.header is None else args.header == "yes",
        drop=tuple(args.drop),
        label=args.label,
        scale=args.scale,
        threshold=args.threshold,
    )
    path, dataset = import_file(
        args.names[1],
        args.name,
        args.out,
        options,
        valid_fraction=args.valid_fraction,
        test_fraction=args.test_fraction,
        seed=args.seed,
        fresh=args.fresh,
        say=lambda line: _report(line, "note"),
    )
    print(describe(dataset, path))
    return 0


def run(args: argparse.Namespace) -> int:
    """Run ``bihm data``; return 0 where every named set exists afterwards."""
    first, several = args.names[0], len(args.names) > 1
    if first == "import":
        return _import(args)
    if args.file and (several or first in ("all", "list")):
        raise InputError(
            "--file goes with exactly one data set, as in `bihm data tfd --file TFD_48x48.mat`"
        )
    if first in ("all", "list") and several:
        raise InputError(f"`{first}` takes no further names, got {' '.join(args.names[1:])}")
    if first in ("all", "list"):
        return _all(args) if first == "all" else _list(args)
    from bihm_repro.datasets.registry import dataset_info

    for name in args.names:
        dataset_info(name)
    unreachable: set[str] = set()
    for name in args.names:
        _convert(name, args, unreachable)
    return 0

"""``bihm layers``: active units and information of each layer of a model; where it overfits."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bihm_repro.cli.arguments import add_shared, integer
from bihm_repro.errors import InputError

HELP = "show the active units of each latent layer, and its information about the layer below"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="run folders, such as results/mnist")
    add("--split", default="valid", help="train, valid or test")
    add("--examples", type=integer(2), default=1000, help="random subset of the split")
    add("--seed", type=integer(), default=0, help="of the subset and the samples")
    add(
        "--gap",
        action="store_true",
        help="compare the terms of the bound, level by level, with those on training rows instead",
    )
    add("--out", metavar="FILE", help="with --gap: also write them as csv; takes one run")
    add_shared(parser, "data")


def run(args: argparse.Namespace) -> int:
    """Print a table for each run."""
    from bihm_repro.datasets.dataset import load_dataset
    from bihm_repro.estimators.active_units import active_units
    from bihm_repro.models.registry import Capability
    from bihm_repro.ops.random_stream import random_rows
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.samplers.from_run import check_data, layered_sampler_of

    if args.out and (not args.gap or len(args.runs) > 1):
        raise InputError("--out: goes with --gap and one run")
    for path in args.runs:
        folder = RunDirectory(path)
        model = layered_sampler_of(folder, Capability.ACTIVE_UNITS, "bihm layers")
        dataset = load_dataset(folder.recipe.dataset, args.data)
        if args.split not in dataset.splits:
            raise InputError(
                f"split {args.split!r} is unknown: {dataset.name} has {', '.join(dataset.splits)}"
            )
        check_data(folder, model.data_dim, dataset)
        x = random_rows(dataset.binary(args.split), args.examples, args.seed)
        if args.gap:
            rows = random_rows(dataset.binary("train"), args.examples, args.seed)
            _print_gaps(path, f"{dataset.name}, train and {args.split}", model, rows, x, args)
            continue
        print(f"{path}: {dataset.name}, {args.split} split, {len(x)} examples")
        print(f"{'layer':>7}{'units':>8}{'active':>8}{'information (nats)':>20}")
        for number, layer in enumerate(active_units(model, x, args.seed), start=1):
            print(f"{number:>7}{layer.units:>8}{layer.active:>8}{layer.information:>20.2f}")
    return 0


def _print_gaps(path: str, what: str, model: Any, train: Any, other: Any, args: Any) -> None:
    """Print, and write where asked for, the terms of the bound on two splits."""
    from bihm_repro.estimators.level_terms import level_gaps
    from bihm_repro.files import write_text

    print(f"{path}: {what} split, {len(train)} and {len(other)} examples, terms of the bound")
    print(f"{'level':>7}{'train':>10}{args.split:>10}{'gap':>8}{'+-':>7}")
    lines = [f"level,train,train_error,{args.split},{args.split}_error,gap,gap_error"]
    found = level_gaps(model, train, other, seed=args.seed)
    for level, item in enumerate(found):
        name = str(level) if level < len(found) - 1 else "all"
        gap = item.gap
        print(f"{name:>7}{item.first.value:>10.2f}{item.second.value:>10.2f}"
              f"{gap.value:>8.2f}{gap.standard_error:>7.2f}")  # fmt: skip
        numbers = (*item.first, *item.second, *gap)
        lines.append(",".join([name, *(repr(float(number)) for number in numbers)]))
    if args.out:
        write_text(Path(args.out), "\n".join(lines) + "\n")

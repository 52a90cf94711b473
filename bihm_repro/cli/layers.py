"""``bihm layers``: active units and information of each layer of a trained model."""

from __future__ import annotations

import argparse

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
    add_shared(parser, "data")


def run(args: argparse.Namespace) -> int:
    """Print a table for each run."""
    from bihm_repro.datasets.dataset import load_dataset
    from bihm_repro.estimators.active_units import active_units
    from bihm_repro.models.registry import Capability
    from bihm_repro.ops.random_stream import random_rows
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.samplers.from_run import check_data, layered_sampler_of

    for path in args.runs:
        folder = RunDirectory(path)
        model = layered_sampler_of(folder, Capability.ACTIVE_UNITS, "bihm layers")
        dataset = load_dataset(folder.recipe.dataset, args.data)
        if args.split not in dataset.splits:
            raise InputError(
                f"split {args.split!r} is unknown: {dataset.name} has {', '.join(dataset.splits)}"
            )
        check_data(folder, model.data_dim, dataset)
        x = random_rows(dataset.splits[args.split], args.examples, args.seed)
        print(f"{path}: {dataset.name}, {args.split} split, {len(x)} examples")
        print(f"{'layer':>7}{'units':>8}{'active':>8}{'information (nats)':>20}")
        for number, layer in enumerate(active_units(model, x, args.seed), start=1):
            print(f"{number:>7}{layer.units:>8}{layer.active:>8}{layer.information:>20.2f}")
    return 0

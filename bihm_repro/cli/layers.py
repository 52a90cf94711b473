"""``bihm layers``: how many units of each layer a trained model uses."""

from __future__ import annotations

import argparse

from bihm_repro.cli.arguments import integer
from bihm_repro.errors import InputError

__all__ = ["HELP", "add_arguments", "run"]

HELP = "show how many units of each latent layer are in use, and what it tells the layer below"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders, such as results/mnist")
    parser.add_argument("--split", default="valid", help="train, valid or test")
    parser.add_argument("--examples", type=integer(2), default=1000,
                        help="random subset of the split")
    parser.add_argument("--seed", type=integer(), default=0,
                        help="of the subset and the draws")
    parser.add_argument("--data", default="data", metavar="DIR", help="the folder of the data sets")


def run(args: argparse.Namespace) -> int:
    """Print a table for each run."""
    import numpy as np

    from bihm_repro.datasets.dataset import load_dataset
    from bihm_repro.estimators.layer_use import layer_use
    from bihm_repro.runs.layout import RunDirectory
    from bihm_repro.samplers.directed import DirectedPair
    from bihm_repro.samplers.from_run import check_data, sampler_of

    for path in args.runs:
        folder = RunDirectory(path)
        pair = sampler_of(folder)
        if not isinstance(pair, DirectedPair):
            raise InputError(f"{path}: a {folder.recipe.model.kind} model has no binary layers; "
                             "bihm layers is for bihm and rws runs")
        dataset = load_dataset(folder.recipe.dataset, args.data)
        if args.split not in dataset.splits:
            raise InputError(f"split {args.split!r} is unknown: {dataset.name} has "
                             f"{', '.join(dataset.splits)}")
        check_data(folder, pair.data_dim, dataset)
        rows = dataset.splits[args.split]
        chosen = np.random.default_rng(args.seed).permutation(len(rows))[:args.examples]
        x = rows[np.sort(chosen)]
        print(f"{path}: {dataset.name}, {args.split} split, {len(x)} examples")
        print(f"{'layer':>7}{'units':>8}{'in use':>8}{'nats told below':>18}")
        for number, use in enumerate(layer_use(pair, x, args.seed), start=1):
            print(f"{number:>7}{use.units:>8}{use.in_use:>8}{use.nats_below:>18.2f}")
    return 0

"""``bihm evaluate``: log-likelihoods, 2 log Z and effective sample sizes of a run's model."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from bihm_repro.cli.arguments import add_shared, integer, integers
from bihm_repro.errors import InputError
from bihm_repro.progress import say

HELP = "estimate log p, log p*, 2 log Z and ESS of a run's model; writes evaluation.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes; what is not given comes from the run's recipe."""
    add, count = parser.add_argument, integer()
    add("run", help="run folder, such as results/mnist")
    own = "(default: the recipe's, {})"
    add("--samples", type=integers, help=f"numbers K of samples {own.format('1,10,100,1000')}")
    add("--z-samples", type=count, help=f"outer samples for 2 log Z {own.format(1000000)}")
    add("--z-inner", type=integer(1), help=f"inner samples per outer sample {own.format(1)}")
    add("--ess-samples", type=count, help=f"K of the effective sample size {own.format(10000)}")
    add("--ess-examples", type=count, help=f"examples for it; 0: all {own.format(1000)}")
    add("--split", default="test", help="train, valid or test")
    add("--examples", type=count, default=0, help="random subset; 0: all")
    add("--seed", type=count, default=0, help="of the estimates' random numbers")
    add("--z-trace", type=integer(1), metavar="N", help="write z_trace.csv with N samples instead")
    add(
        "--cluster",
        metavar="WHERE",
        help="compute on workers: local:N, tcp://HOST:PORT or a scheduler file; "
        "the estimates are the same",
    )
    add("--no-write", action="store_true", help="print only")
    add_shared(parser, "data", "threads", "engine", "device")


def run(args: argparse.Namespace) -> int:
    """Evaluate and print the metrics."""
    from bihm_repro.engine.choice import choose
    from bihm_repro.runs.layout import RunDirectory

    choose(args.engine, args.device, args.threads)
    folder = RunDirectory(args.run)
    name = folder.recipe.dataset  # a clear line where this is no run folder
    from bihm_repro.datasets.dataset import load_dataset
    from bihm_repro.estimators.evaluate import evaluate_run, write_z_trace
    from bihm_repro.recipes.recipe import EvaluationRecipe

    if args.z_trace is not None:
        if args.cluster is not None:
            raise InputError("--z-trace: is made in this process; leave --cluster out")
        write_z_trace(folder, samples=args.z_trace, seed=args.seed)
        print(f"{folder.file('z_trace.csv')} written")
        return 0
    dataset = load_dataset(name, args.data)
    try:
        with _workers(args) as compute_for:
            result = evaluate_run(
                folder,
                **{item.name: getattr(args, item.name) for item in fields(EvaluationRecipe)},
                examples=args.examples,
                split=args.split,
                seed=args.seed,
                dataset=dataset,
                write=not args.no_write,
                compute_for=compute_for,
            )
    except KeyboardInterrupt:
        if not args.no_write:
            say(
                "interrupted: the same command continues from the blocks that are done",
                file=sys.stderr,
            )
        return 130
    print(describe(result))
    return 0


@contextmanager
def _workers(args: argparse.Namespace) -> Iterator[Any]:
    """Yield how the blocks of an evaluation are computed: by the cluster, where there is one."""
    if args.cluster is None:
        yield None
        return
    from bihm_repro.cluster.connect import connect, threads_of_each
    from bihm_repro.cluster.evaluation import Workplace, on_cluster

    threads = threads_of_each(args.cluster, args.threads)
    place = Workplace(os.getcwd(), args.data, args.engine, args.device, threads)
    with connect(args.cluster) as client:
        yield on_cluster(client, place)


def describe(result: dict) -> str:
    """Return the evaluation as a few aligned lines."""
    lines = [f"{result['dataset']}, {result['split']} split, {result['n_examples']} examples"]
    names = [("log_p", "-log p"), ("log_p_tilde_star", "-log p~*"), ("log_p_star", "-log p*")]
    for k, metrics in {**result["samples"], **result.get("more_samples", {})}.items():
        cells = [
            f"{label} {-metrics[name]['value']:.2f} ± {metrics[name]['standard_error']:.2f}"
            for name, label in names
            if name in metrics
        ]
        lines.append(f"K={k:>6}  " + "   ".join(cells))
    if "log_z2" in result:
        z = result["log_z2"]
        lines.append(
            f"2 log Z  {z['value']:.3f} ± {z['standard_error']:.3f} ({z['samples']} samples)"
        )
    if "ess" in result:
        ess = result["ess"]
        parts = [
            f"{label} {ess[name]['value']:.2f}% ± {ess[name]['standard_error']:.2f}"
            for name, label in (("p_star", "p*"), ("p", "p"))
            if name in ess
        ]
        lines.append(f"ESS  {'   '.join(parts)} (K={ess['samples']})")
    return "\n".join(lines)

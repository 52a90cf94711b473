"""How 2 log Z scales over local workers: ``python -m benchmarks.cluster_scaling results/mnist``.

Strong scaling divides the same samples among the workers; weak scaling gives each worker as many.
Both are ratios to one process with one thread; run nothing beside it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

__all__ = ["main", "measure", "ratios"]


def measure(run: str, samples: int, workers: int, data: str = "data") -> float:
    """Seconds of an estimate of 2 log Z with ``workers`` workers (0: in this process)."""
    from bihm_repro.cluster.connect import connect
    from bihm_repro.cluster.evaluation import Workplace, on_cluster
    from bihm_repro.datasets.dataset import load_dataset
    from bihm_repro.estimators.blocks import here, run_estimator
    from bihm_repro.estimators.evaluate import Evaluation
    from bihm_repro.runs.layout import RunDirectory

    folder = RunDirectory(Path(run).resolve())
    recipe, dataset = folder.recipe, load_dataset(folder.recipe.dataset, data)
    settings = replace(recipe.evaluation, z_samples=samples)
    evaluation = Evaluation(
        str(folder.path),
        settings,
        "test",
        0,
        0,
        folder.read_model().fingerprint,
        dataset.fingerprint,
    )
    estimator = evaluation.estimators(dataset)["2 log Z"]

    def seconds(compute) -> float:
        list(compute(estimator, range(min(estimator.count, 8 * max(1, workers)))))  # compiles
        start = time.perf_counter()
        run_estimator(estimator, compute, quiet=True)
        return time.perf_counter() - start

    if not workers:
        return seconds(here)
    with connect(f"local:{workers}") as client:
        place = Workplace(os.getcwd(), data, threads=1)
        return seconds(on_cluster(client, place)(evaluation))


def ratios(alone: float, strong: Sequence[float], weak: Sequence[float]) -> list[dict]:
    """Rows of the table: time ratios to one process, and the share of the ideal.

    >>> ratios(10.0, [10.0, 5.0], [10.0, 12.5])[1]
    {'workers': 2, 'strong': 0.5, 'efficiency': 1.0, 'weak': 1.25}
    """
    return [
        {"workers": n, "strong": divided / alone, "efficiency": alone / (n * divided),
         "weak": grown / alone}
        for n, (divided, grown) in enumerate(zip(strong, weak), 1)
    ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="a run folder of a BiHM")
    parser.add_argument("--samples", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--data", default="data")
    args = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    alone = measure(args.run, args.samples, 0, args.data)
    counts = range(1, args.workers + 1)
    strong = [measure(args.run, args.samples, n, args.data) for n in counts]
    weak = [measure(args.run, args.samples * n, n, args.data) for n in counts]
    print(f"one process: {alone:.1f} s for {args.samples} samples\n")
    print("| workers | same samples | efficiency | as many samples each |\n|---:|---:|---:|---:|")
    for row in ratios(alone, strong, weak):
        print("| {workers} | {strong:.2f} | {efficiency:.2f} | {weak:.2f} |".format(**row))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""What workers and hosts gain and cost: ``python -m benchmarks.scaling``, into scaling.json.

An evaluation (2 log Z) is timed on 1, 2, ... workers with one thread each, and in one process with
as many threads on the same cores. An update in JAX mode is timed on one host and on two that share
the mini-batch (both on this machine, a core each), with the sum of a gradient over both alone.
Best of some repetitions; run nothing beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.architectures import TINY, Case, find_case
from benchmarks.communication import bytes_of_models, gradient_bytes
from benchmarks.contenders import ROOT, SECOND_ENGINE, WorkerError, find_python
from benchmarks.machine import describe
from benchmarks.measure import tell
from benchmarks.scaling_page import page

__all__ = ["evaluation_rows", "main", "measure_evaluation", "write_problem"]

REPEATS = 2


def write_problem(folder: Path, case: Case) -> None:
    """Write a run of a model of the sizes of ``case`` into ``folder``, with data of its own."""
    import numpy as np

    from benchmarks.problem import batches, initial_parameters
    from bihm_repro.datasets.user_data import import_file
    from bihm_repro.recipes.recipe import Recipe
    from bihm_repro.runs.layout import RunDirectory

    np.save(folder / "rows.npy", batches(replace(case, batch=100), 1)[0])
    import_file(folder / "rows.npy", "problem", folder / "data")
    run = RunDirectory(folder / "run")
    recipe = {"dataset": "problem", "model": {"layers": list(case.layers)}}
    run.write_recipe(Recipe.from_dict(recipe))
    run.write_model(initial_parameters(case), {"kind": "bihm", "data_dim": case.data_dim})


def measure_evaluation(folder: str, samples: int, workers: int) -> dict:
    """Seconds of 2 log Z with ``workers`` workers (0: in this process), and of their start."""
    from bihm_repro.cluster.connect import connect
    from bihm_repro.cluster.evaluation import Workplace, on_cluster
    from bihm_repro.datasets.dataset import load_dataset
    from bihm_repro.estimators.blocks import here, run_estimator
    from bihm_repro.estimators.evaluate import Evaluation
    from bihm_repro.runs.layout import RunDirectory

    os.chdir(folder)
    run, dataset = RunDirectory(Path("run").resolve()), load_dataset("problem")
    settings = replace(run.recipe.evaluation, z_samples=samples)
    prints = run.read_model().fingerprint, dataset.fingerprint
    evaluation = Evaluation(str(run.path), settings, "test", 0, 0, *prints)
    begin = time.perf_counter()

    def timed(compute) -> dict:
        first = evaluation.estimators(dataset)["2 log Z"]
        list(compute(first, range(min(first.count, 8 * max(1, workers)))))  # compiles
        found = {"start_seconds": time.perf_counter() - begin, "seconds": float("inf")}
        for _ in range(REPEATS):
            estimator = evaluation.estimators(dataset)["2 log Z"]
            start = time.perf_counter()
            run_estimator(estimator, _same_functions(compute, first), quiet=True)
            found["seconds"] = min(found["seconds"], time.perf_counter() - start)
        return found

    if not workers:
        return timed(here)
    with connect(f"local:{workers}") as client:
        return timed(on_cluster(client, Workplace(os.getcwd(), "data", threads=1))(evaluation))


def _same_functions(compute, compiled):
    """Compute with an estimator whose functions are compiled already."""
    return lambda _, numbers: compute(compiled, numbers)


def evaluation_rows(measured: dict[tuple[int, int, int], dict], samples: int) -> list[dict]:
    """Rows of the table from {(workers, threads, samples): seconds}.

    ``strong``, for the same samples, and ``weak``, for as many samples per worker, are ratios to
    one process with as many threads on the same cores; ``speedup`` is over one thread.

    >>> times = {(0, 1, 8): 10.0, (1, 1, 8): 11.0, (0, 2, 8): 5.0, (2, 1, 8): 6.0}
    >>> times.update({(0, 2, 16): 10.0, (2, 1, 16): 11.0})
    >>> found = {key: {"seconds": value, "start_seconds": 3.0} for key, value in times.items()}
    >>> evaluation_rows(found, 8)[1]["weak"]
    1.1
    """
    rows, alone = [], measured[0, 1, samples]["seconds"]
    for n in sorted({workers for workers, _, _ in measured} - {0}):
        same, grown = measured[n, 1, samples], measured[n, 1, n * samples]
        rows.append(
            {
                "workers": n,
                "seconds": same["seconds"],
                "one_process_seconds": measured[0, n, samples]["seconds"],
                "strong": same["seconds"] / measured[0, n, samples]["seconds"],
                "weak": grown["seconds"] / measured[0, n, n * samples]["seconds"],
                "speedup": alone / same["seconds"],
                "start_seconds": same["start_seconds"],
            }
        )
    return rows


def _child(module: str, request: dict, cores: int, python: str = sys.executable, **environment):
    """Start a process of this package on the first ``cores`` cores, that answers with JSON."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(
        [python, "-m", module, json.dumps({**request, "cores": allowed})],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=env,
    )


def _answer(process: subprocess.Popen) -> dict:
    said, _ = process.communicate()
    if process.returncode:
        raise WorkerError(f"{process.args[2]} ended with status {process.returncode}")
    return json.loads(said.splitlines()[-1])


def evaluation(case: Case, samples: int, most: int) -> dict:
    """Measure 2 log Z on 1 to ``most`` workers and in one process."""
    wanted = [(0, 1, samples)]
    for n in range(1, most + 1):
        wanted += [(0, n, samples), (n, 1, samples), (0, n, n * samples), (n, 1, n * samples)]
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        write_problem(Path(folder), case)
        for workers, threads, count in dict.fromkeys(wanted):
            what = f"{workers} workers" if workers else f"one process, {threads} threads"
            tell(f"2 log Z, {count:,} samples: {what}")
            request = {"folder": folder, "samples": count, "workers": workers}
            cores, number = max(workers, threads), str(threads)
            child = _child("benchmarks.scaling", request, cores, OMP_NUM_THREADS=number)
            measured[workers, threads, count] = _answer(child)
    rows = evaluation_rows(measured, samples)
    return {"model": case.model, "samples": samples, "rows": rows}


def reduction(cases: Sequence[Case], hosts: int = 2) -> dict:
    """Measure updates on one host and on ``hosts``, and the sum of one gradient over them."""
    from benchmarks.reduction import free_port

    python = find_python(SECOND_ENGINE)
    settings = {"BIHM_ENGINE": "pytensor", "BIHM_DEVICE": "jax-cpu", "OMP_NUM_THREADS": "1"}
    updates = []
    for case in cases:
        found = []
        for count in (1, hosts):
            tell(f"update {case.name} on {count} host{'s' if count > 1 else ''}")
            where = f"127.0.0.1:{free_port()}"
            several = {"BIHM_HOSTS": str(count), "BIHM_COORDINATOR": where}
            processes = [
                _child(
                    "benchmarks.reduction",
                    {"case": case.to_dict(), "host": host},
                    count,
                    python,
                    **settings,
                    **({**several, "BIHM_HOST_ID": str(host)} if count > 1 else {}),
                )
                for host in range(count)
            ]
            found.append([_answer(process) for process in processes][0])
        one, several_hosts = found
        updates.append(
            {
                "samples": case.samples,
                "batch": case.batch,
                "one_ms": one["update_ms"],
                "hosts_ms": several_hosts["update_ms"],
                "reduction_ms": several_hosts["reduction_ms"],
            }
        )
    sizes = cases[0].sizes
    return {
        "model": cases[0].model,
        "hosts": hosts,
        "gradient_bytes": gradient_bytes(sizes),
        "updates": updates,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write ``scaling.json`` and print the page."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0].startswith("{"):  # a measurement in a process of its own
        request = json.loads(words[0])
        os.sched_setaffinity(0, request.pop("cores"))
        print(json.dumps(measure_evaluation(**request)))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=300_000, help="of 2 log Z")
    parser.add_argument("--workers", type=int, default=2, help="the largest number of workers")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the script")
    parser.add_argument("--out", default="results", help="folder of scaling.json")
    args = parser.parse_args(words)
    names = ("mnist-K10", "mnist-K100")
    cases = [replace(TINY, batch=4)] if args.tiny else [find_case(name) for name in names]
    content = {
        "machine": {**describe(), "available_cores": len(os.sched_getaffinity(0))},
        "evaluation": evaluation(cases[0], args.samples, args.workers),
        "communication": bytes_of_models(),
    }
    try:
        content["reduction"] = reduction(cases)
    except WorkerError as error:
        tell(f"without updates on several hosts: {error}")
    path = Path(args.out) / "scaling.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(page(content))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

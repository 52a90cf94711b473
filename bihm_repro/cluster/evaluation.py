"""Large estimates on a cluster: workers compute the sums of blocks, this process adds them."""

from __future__ import annotations

import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bihm_repro.cluster.training import threads_of_worker
from bihm_repro.datasets.dataset import load_dataset
from bihm_repro.engine.choice import choose, engine_name
from bihm_repro.engine.threads import available_cores
from bihm_repro.errors import InputError
from bihm_repro.runs.layout import RunDirectory

if TYPE_CHECKING:
    from bihm_repro.estimators.blocks import Compute, Estimator
    from bihm_repro.estimators.evaluate import Evaluation

__all__ = ["Workplace", "block_sums", "on_cluster"]

SAMPLES_OF_A_TASK = 2**18
"""About so many samples make a task: seconds of work, some kilobytes of sums."""
RESUBMISSIONS = 100

_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Workplace:
    """Where and how a worker evaluates; ``threads`` None for its share of its cores."""

    folder: str
    data: str
    engine: str | None = None
    device: str | None = None
    threads: int | None = None


def block_sums(
    evaluation: bytes, place: Workplace, title: str, numbers: Sequence[int]
) -> list[np.ndarray]:
    """Return the sums of some blocks of the estimator called ``title``: a task of a worker.

    ``evaluation`` is a pickled ``Evaluation``: its module imports the engine, which has to be
    chosen before.
    """
    with _one_at_a_time:  # compiled functions serve one thread at a time
        estimator = _estimators(evaluation, place)[title]
        return [estimator.sums(number) for number in numbers]


@lru_cache(maxsize=1)
def _estimators(evaluation: bytes, place: Workplace) -> dict[str, Estimator]:
    """Build the estimators that this worker uses from now on."""
    host = os.uname().nodename
    if not os.path.isdir(place.folder):
        raise InputError(
            f"{place.folder}: worker {host} does not see this folder; workers need the file system "
            "of the machine where the evaluation is started"
        )
    os.chdir(place.folder)
    # Dask has set OMP_NUM_THREADS to 1.
    choose(
        place.engine,
        place.device,
        place.threads or max(1, available_cores() // threads_of_worker()),
    )
    from bihm_repro.engine.symbolic import engine

    if engine != engine_name():
        raise InputError(f"worker {host} has loaded {engine} before: restart the workers")
    found: Evaluation = pickle.loads(evaluation)
    dataset = RunDirectory(found.run).recipe.dataset
    return found.estimators(load_dataset(dataset, place.data))


def on_cluster(client: Any, place: Workplace) -> Callable[[Evaluation], Compute]:
    """Return how the blocks of an evaluation are computed by the workers of ``client``."""

    def compute_for(evaluation: Evaluation) -> Compute:
        content = pickle.dumps(evaluation)

        def compute(estimator: Estimator, numbers: Sequence[int]) -> Iterator[np.ndarray]:
            yield from _in_order(client, content, place, estimator, deque(numbers))

        return compute

    return compute_for


def _in_order(
    client: Any,
    evaluation: bytes,
    place: Workplace,
    estimator: Estimator,
    left: deque[int],
) -> Iterator[np.ndarray]:
    """Yield the sums of the blocks ``left`` in their order; only some tasks are under way.

    What is kept here does not grow with the number of samples.
    """

    def submit(numbers: tuple[int, ...]) -> Any:
        return client.submit(
            block_sums, evaluation, place, estimator.title, numbers, pure=False, retries=2
        )

    under_way: deque[tuple[tuple[int, ...], Any]] = deque()
    while left or under_way:
        workers = max(1, sum(client.nthreads().values()))
        largest = max(1, SAMPLES_OF_A_TASK // estimator.size(0))
        while left and len(under_way) < 2 * workers + 2:
            count = max(1, min(largest, -(-len(left) // (2 * workers))))
            numbers = tuple(left.popleft() for _ in range(min(count, len(left))))
            under_way.append((numbers, submit(numbers)))
        numbers, future = under_way.popleft()
        yield from _result(future, partial(submit, numbers))


def _result(future: Any, again: Callable[[], Any]) -> list[np.ndarray]:
    """Wait for a task; one whose workers have died too often is given to the scheduler again."""
    from distributed import KilledWorker

    for _ in range(RESUBMISSIONS):
        try:
            return future.result()
        except KilledWorker:
            future = again()
    raise InputError("the workers died that computed a block, again and again; see their logs")

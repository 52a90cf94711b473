"""One host of several that share mini-batches in JAX mode: its updates and sums of gradients.

Started by ``benchmarks.scaling`` with a request in JSON; host 0 answers with milliseconds.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable

__all__ = ["best_ms", "free_port", "main"]

ROUNDS, COUNT = 6, 4


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def best_ms(run: Callable[[int], object]) -> float:
    """Milliseconds of one repetition in the best of some rounds; ``run(n)`` makes n of them."""
    run(2)
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run(COUNT)
        times.append((time.perf_counter() - start) / COUNT)
    return 1e3 * min(times)


def _sum_of_gradients(count: int) -> Callable[[int], None]:
    """Add up a vector of ``count`` floats over all devices, ``n`` times."""
    import jax
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    from bihm_repro.engine.jax_parallel import ROWS, mesh

    devices = mesh()
    split, whole = (NamedSharding(devices, PartitionSpec(*axes)) for axes in ((ROWS,), ()))
    shape = (devices.size, count)
    part = np.ones((1, count), np.float32)
    values = jax.make_array_from_callback(shape, split, lambda index: part)
    add = jax.jit(lambda parts: parts.sum(axis=0), out_shardings=whole)

    def run(n: int) -> None:
        for _ in range(n):
            add(values).block_until_ready()

    return run


def main(request: dict) -> int:
    """Measure; both hosts make the same calls in the same order."""
    cores = request["cores"]
    os.sched_setaffinity(0, {cores[request["host"] % len(cores)]})
    from benchmarks.architectures import Case
    from benchmarks.communication import parameter_count
    from benchmarks.ours import Ours
    from bihm_repro.engine.jax_parallel import end
    from bihm_repro.engine.parallel import several_hosts

    case = Case.from_dict(request["case"])
    found = {"update_ms": best_ms(Ours().prepare("update", case))}
    if several_hosts():
        found["reduction_ms"] = best_ms(_sum_of_gradients(parameter_count(case.sizes)))
    print(json.dumps(found), flush=True)
    end(0)


if __name__ == "__main__":
    raise SystemExit(main(json.loads(sys.argv[1])))

"""The speed of matrix products, as ``bihm doctor`` measures it."""

from __future__ import annotations

import time

import numpy as np

from bihm_repro.engine.symbolic import T, function

__all__ = ["sgemm_gflops"]


def sgemm_gflops(size: int = 1024, rounds: int = 5) -> float:
    """Return the best speed of a float32 matrix product through the engine's BLAS, in GFLOP/s."""
    a, b = T.matrix(dtype="float32"), T.matrix(dtype="float32")
    multiply = function([a, b], T.dot(a, b))
    x = np.ones((size, size), dtype=np.float32)
    best = np.inf
    for _ in range(rounds):
        start = time.perf_counter()
        multiply(x, x)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9

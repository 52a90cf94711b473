"""How the cost of our update grows with K, batch and layers, and evaluation's memory with K."""

from __future__ import annotations

import numpy as np

from benchmarks.architectures import LAYERS, Case
from benchmarks.contenders import Worker
from benchmarks.measure import interleaved, tell

__all__ = ["evaluation_memory", "growth", "linear_fit", "scaling_cases"]

WIDTH = 100


def scaling_cases() -> dict:
    """What grows -> list of (its size, case)."""
    data_dim, layers = LAYERS["mnist"]
    samples, batch, depth = (5, 10, 20, 40, 80), (25, 50, 100, 200, 400), (2, 4, 8, 16)
    return {
        "samples": [(k, Case("mnist", data_dim, layers, k)) for k in samples],
        "batch": [(n, Case("mnist", data_dim, layers, 10, n)) for n in batch],
        "layers": [(d, Case(f"{d}x{WIDTH}", WIDTH, (WIDTH,) * d, 10)) for d in depth],
    }


def linear_fit(sizes: list, times: list) -> dict:
    """The straight line through the times, and the share of their variance that it explains."""
    slope, start = np.polyfit(sizes, times, 1)
    left = np.asarray(times) - (slope * np.asarray(sizes) + start)
    share = 1.0 - float(np.var(left)) / max(float(np.var(times)), 1e-30)
    return {"ms_per_unit": float(slope), "ms_at_zero": float(start), "r_squared": share}


def growth(contenders: list, rounds: int) -> dict:
    """For each thing that grows: sizes, ms of the contenders, and the line through ours."""
    table = {}
    for what, pairs in scaling_cases().items():
        rows = []
        for size, case in pairs:
            tell(f"scaling in {what}: {size}")
            found = interleaved("update", case, contenders, rounds)
            rows.append({"size": size, **{f"{k}_ms": v["best_ms"] for k, v in found.items()}})
        sizes = [row["size"] for row in rows]
        table[what] = {"rows": rows}
        if all("ours_ms" in row for row in rows):
            table[what]["fit"] = linear_fit(sizes, [row["ours_ms"] for row in rows])
    return table


def evaluation_memory(contenders: list) -> list:
    """Peak memory of our log-likelihood on MNIST's model at growing K, a new process each."""
    data_dim, layers = LAYERS["mnist"]
    rows = []
    for ours in (contender for contender in contenders if contender.key == "ours"):
        for samples in (100, 1000, 10000):
            tell(f"memory of evaluation: K={samples}")
            with Worker(ours) as worker:
                worker.prepare("log_likelihood", Case("mnist", data_dim, layers, samples, 10))
                rows.append({"samples": samples, "peak_mb": worker.ask("run", count=1)["peak_mb"]})
    return rows

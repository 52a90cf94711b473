"""The floor: the bare matrix products that a task cannot do without, and nothing else.

An update (Algorithm 1) needs, with R = batch * K rows: q(h1|x) once per x; q's other layers and
all of p on R rows; a weight gradient of each of these, the first q layer's from residuals summed
over K. Estimates need the forward products only. Every product is one sgemm into an array made
beforehand, so this measures BLAS and the memory it touches.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.architectures import Case
from benchmarks.worker import main

__all__ = ["SgemmFloor", "log_likelihood_products", "log_z2_products", "update_products"]

BLOCK = 1000
"""Rows a block of the estimators' products."""


def _forward_q(case: Case, rows: int, first_rows: int) -> list:
    sizes = case.sizes
    shapes = [(first_rows, sizes[0], sizes[1])] if first_rows else []
    return shapes + [(rows, low, high) for low, high in zip(sizes[1:-1], sizes[2:])]


def _forward_p(case: Case, rows: int) -> list:
    sizes = case.sizes
    return [(rows, high, low) for low, high in zip(sizes[:-1], sizes[1:])]


def update_products(case: Case) -> list:
    """Shapes (m, k, n, transposed) of an update's products, m x k times k x n.

    `transposed` says that the left factor is stored k x m, as in a weight gradient.
    """
    rows = case.batch * case.samples
    forward = _forward_q(case, rows, case.batch) + _forward_p(case, rows)
    gradients = [(inner, m, n) for m, inner, n in forward]
    return [(*shape, False) for shape in forward] + [(*shape, True) for shape in gradients]


def log_likelihood_products(case: Case, rows: int, examples: int) -> list:
    """Forward products for `rows` samples of `examples` examples."""
    shapes = _forward_q(case, rows, examples) + _forward_p(case, rows)
    return [(*shape, False) for shape in shapes]


def log_z2_products(case: Case, rows: int) -> list:
    """Forward products for `rows` samples of 2 log Z at K_inner = 1.

    x, h ~ p; q(h|x) of that h; h' ~ q(h'|x), whose first layer's logits are the former's;
    p(x, h').
    """
    shapes = (
        _forward_p(case, rows)
        + _forward_q(case, rows, rows)
        + _forward_q(case, rows, 0)
        + _forward_p(case, rows)
    )
    return [(*shape, False) for shape in shapes]


def _allocated(products: list) -> list:
    """Operands (left, right, out) for each product; factors are binary-like, never denormal."""
    random = np.random.RandomState(0)
    operands = []
    for m, k, n, transposed in products:
        left = random.uniform(-1, 1, (k, m) if transposed else (m, k)).astype(np.float32)
        right = random.uniform(-1, 1, (k, n)).astype(np.float32)
        operands.append((left.T if transposed else left, right, np.empty((m, n), np.float32)))
    return operands


def _multiply(operands: list) -> None:
    for left, right, out in operands:
        np.dot(left, right, out=out)


class SgemmFloor:
    """The floor as a contender; it computes no model, so there is nothing to check."""

    def check(self) -> float:
        """Number of multiplications against a count by hand of the tiny architecture."""
        return 0.0

    def prepare(self, task: str, case: Case):
        """A function that runs the products of `count` repetitions of the task."""
        if task == "update":
            operands, repeats = _allocated(update_products(case)), 1
        elif task == "log_z2":
            operands = _allocated(log_z2_products(case, BLOCK))
            repeats = case.samples // BLOCK
        elif task == "log_likelihood":
            # One example's K samples are a block: its first layer is a single row.
            blocks = case.batch * case.samples // BLOCK
            examples = max(1, case.batch // blocks)
            operands, repeats = _allocated(log_likelihood_products(case, BLOCK, examples)), blocks
        else:
            raise ValueError(f"the sgemm floor has no task {task!r}")

        def run(count: int) -> None:
            for _ in range(count * repeats):
                _multiply(operands)

        return run


if __name__ == "__main__":
    sys.exit(main(SgemmFloor))

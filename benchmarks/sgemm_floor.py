"""The floor: the bare matrix products of a task, made densely, and nothing else.

Ours may go below it where few units are on, as it then reads only these.

An update (Algorithm 1) needs, with R = batch * K rows: q(h1|x) once per x; q's other layers and
all of p on R rows; a weight gradient of each of these, the first q layer's from residuals summed
over K. Estimates need the forward products only. Every product is one sgemm into an array made
beforehand, so this measures BLAS and the memory it touches.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.architectures import TINY, Case
from benchmarks.problem import relative_error
from benchmarks.worker import main

__all__ = ["SgemmFloor", "log_likelihood_products", "log_z2_products", "update_products"]

BLOCK = 4000
"""Rows a block of the estimators' products: on the MNIST model faster than smaller ones."""


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


def log_likelihood_products(case: Case, rows: int) -> tuple:
    """Forward products of `case.batch` examples: the first q layer's, and a block of samples'."""
    first = [(case.batch, *case.sizes[:2], False)]
    rest = _forward_q(case, rows, 0) + _forward_p(case, rows)
    return first, [(*shape, False) for shape in rest]


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
    """Operands (left, right, out) for each product; factors are in [-1, 1), never denormal."""
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


def _blocks(rows: int) -> tuple:
    """(rows a block, number of blocks)."""
    block = min(BLOCK, rows)
    if rows % block:
        raise ValueError(f"{rows} samples are not a multiple of the floor's block of {block}")
    return block, rows // block


def _sequence(task: str, case: Case) -> list:
    """Pairs (products, how many times) that make up one repetition of the task."""
    if task == "update":
        return [(update_products(case), 1)]
    block, times = _blocks(case.batch * case.samples)
    if task == "log_z2":
        return [(log_z2_products(case, block), times)]
    if task == "log_likelihood":
        first, rest = log_likelihood_products(case, block)
        return [(first, 1), (rest, times)]
    raise ValueError(f"the sgemm floor has no task {task!r}")


class SgemmFloor:
    """The floor as a contender."""

    def check(self) -> float:
        """Relative error of one product against float64: that the operands lie as they should."""
        operands = _allocated(update_products(TINY))
        _multiply(operands)
        products = {
            str(i): left.astype(float) @ right for i, (left, right, _) in enumerate(operands)
        }
        return relative_error({str(i): out for i, (_, _, out) in enumerate(operands)}, products)

    def prepare(self, task: str, case: Case):
        """A function that runs the products of `count` repetitions of the task."""
        sequence = [(_allocated(shapes), times) for shapes, times in _sequence(task, case)]

        def run(count: int) -> None:
            for _ in range(count):
                for operands, times in sequence:
                    for _ in range(times):
                        _multiply(operands)

        return run


if __name__ == "__main__":
    sys.exit(main(SgemmFloor))

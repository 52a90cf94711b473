"""What several devices would send for one update, in bytes, by the sizes of a model's layers.

Data-parallel training sends the gradient of every parameter once per update. The paper's layers
could each have a device of its own: then only binary samples and importance weights travel, one bit
per unit and one float per sample between adjacent layers.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["gradient_bytes", "layer_parallel_bytes", "parameter_count", "rows_that_pay"]

FLOAT = 4


def parameter_count(sizes: Sequence[int]) -> int:
    """Return the parameters of p and q of a BiHM with layers of ``sizes``, the data first.

    >>> parameter_count([3, 2])  # p0: 2 x 3 and 3, p1: 2; q0: 3 x 2 and 2
    19
    """
    weights = sum(lower * upper for lower, upper in zip(sizes, sizes[1:]))
    return 2 * weights + sum(sizes) + sum(sizes[1:])


def gradient_bytes(sizes: Sequence[int]) -> int:
    """Return the bytes of one gradient, which a reduction over devices sends at least once."""
    return FLOAT * parameter_count(sizes)


def layer_parallel_bytes(sizes: Sequence[int], samples: int, batch: int) -> int:
    """Return the bytes that layers on devices of their own would send for one mini-batch.

    Each sample of a latent layer is sent to the layer below or above it, one bit per unit, with one
    float, its part of the log weight.

    >>> layer_parallel_bytes([3, 9, 7], samples=10, batch=100)  # 16 bits and 2 floats a sample
    10000
    """
    rows, units = samples * batch, sum(sizes[1:])
    return -(-rows * units // 8) + rows * FLOAT * len(sizes[1:])


def rows_that_pay(reduction_ms: float, update_ms: float, rows: int, devices: int = 2) -> float:
    """Return from how many rows (examples x K) on ``devices`` are faster than one.

    ``update_ms`` is the time of an update of ``rows`` rows on one device, and grows with them;
    n devices save (n - 1) / n of it and add one reduction.

    >>> rows_that_pay(reduction_ms=24, update_ms=28, rows=1000)
    1714.28...
    """
    return reduction_ms / (update_ms / rows) * devices / (devices - 1)

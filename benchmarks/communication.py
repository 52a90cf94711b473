"""What several devices would send for one update, in bytes, by the sizes of a model's layers.

Data-parallel training sends the gradient of every parameter once per update. The paper's layers
could each have a device of its own: then only binary samples and importance weights travel, one bit
per unit and one float per sample between adjacent layers.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.architectures import LAYERS

__all__ = [
    "MODELS",
    "bytes_of_models",
    "gradient_bytes",
    "layer_parallel_bytes",
    "parameter_count",
    "rows_that_pay",
]

FLOAT = 4
MODELS = {
    **{
        title: (LAYERS[name][0], *LAYERS[name][1])
        for title, name in (("MNIST", "mnist"), ("Web", "web"), ("OCR letters", "ocr_letters"))
    },
    "DNA": (180, 200, 150, 130, 100, 70, 50, 30, 20, 10),
    "Connect4": (126, 300, 110, 50, 20),
    "Adult": (LAYERS["adult"][0], *LAYERS["adult"][1]),
}
"""The paper's models: sizes of all layers, the data first."""


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


def bytes_of_models() -> list[dict]:
    """Return for each of the paper's models what an update of 100 examples would send."""
    return [
        {
            "model": name,
            "layers": len(sizes) - 1,
            "parameters": parameter_count(sizes),
            "gradient_bytes": gradient_bytes(sizes),
            "layer_parallel_bytes": {
                str(k): layer_parallel_bytes(sizes, k, 100) for k in (10, 100)
            },
        }
        for name, sizes in MODELS.items()
    ]

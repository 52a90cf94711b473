"""Standard normal numbers, the noise of reparameterised Gaussian layers.

The polar form of Box and Muller (1958) on the counter-based uniform numbers: columns ``j`` and
``j + 8`` of each sixteen come from one cipher block with words u and v and are
sqrt(-2 log u) cos(2 pi v) and sqrt(-2 log u) sin(2 pi v). C and numpy both work in double
precision and round once, so they agree to the last digit or one beside it.
"""

from __future__ import annotations

from typing import Any

from bihm_repro.ops.fused import FusedOp
from bihm_repro.ops.random_numbers import normal

__all__ = ["standard_normal"]


class StandardNormal(FusedOp):
    """``units`` columns of noise, ``repeats`` rows for each row of ``like``."""

    arrays, integers, counts = ("x",), ("units", "repeats", "seed", "counter"), (1, 2)
    outputs = {"out": ("rows", "units")}
    kernels = "normal.h"
    sizes = "const npy_intp rows = DIM(x, 0) * repeats;"
    fits = "repeats > 0 && units > 0"
    call = "bihm::standard_normal(rows, units, bihm::counter_key(seed, counter), out), true"
    jax_name = "standard_normal"

    def reference(self, x, units, repeats, seed, counter) -> tuple:
        return (normal(int(seed), int(counter), len(x) * int(repeats), int(units)),)

    def infer_shape(self, *arguments) -> list[tuple]:
        node, shapes = arguments[-2:]
        return [(shapes[0][0] * node.inputs[2], node.inputs[1])]


def standard_normal(like: Any, units: Any, *, repeats: Any = 1, seed: Any, counter: Any) -> Any:
    """Noise of shape (n * repeats, units), in the type of ``like``.

    Parameters
    ----------
    like : (n, anything), a variable that no gradient is taken through, such as the data
    seed, counter : which random numbers; see ``random_numbers``
    """
    return StandardNormal()(like, units, repeats, seed, counter)

"""Annealed importance sampling (Neal, 2001; Salakhutdinov and Murray, 2008) of an RBM, fused.

The distributions p_beta(v) ~ exp(b v) prod_j (1 + exp(beta (c_j + v W_j))) go from independent
visible units, beta = 0, to the model, beta = 1. A chain starts at the first; at each beta in turn
its weight is multiplied by the ratio of the new density to the old one, and it takes a Gibbs step.
The expectation of the weights is Z / Z_0 with Z_0 = 2^hidden prod_i (1 + exp(b_i)).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bihm_repro.ops.fused import FusedOp
from bihm_repro.ops.numerics import sigmoid, softplus
from bihm_repro.ops.random_numbers import uniform

__all__ = ["annealed_log_weights"]


class AnnealedWeights(FusedOp):
    """See ``annealed_log_weights``; inputs: W, its transpose, b, c, and the integers."""

    arrays = ("w", "transposed", "b", "c")
    integers, counts = ("chains", "steps", "seed", "counter"), (-4, -3)
    outputs = {"log_weights": ("chains",)}
    kernels = "annealing.h"
    sizes = "const npy_intp visible = DIM(w, 0), hidden = DIM(w, 1);"
    fits = "chains > 0 && steps > 0 && DIM(b, 0) == visible && DIM(c, 0) == hidden"
    call = """bihm::annealed_weights(w, transposed, b, c, visible, hidden, chains, steps, seed,
                    counter, log_weights)"""
    jax_name = "annealed_weights"

    def reference(self, w, transposed, b, c, chains, steps, seed, counter) -> tuple:
        chains, steps, counter = int(chains), int(steps), int(counter)
        v = uniform(int(seed), counter, chains, len(b)) < sigmoid(b)
        total = np.zeros(chains)
        for step in range(1, steps + 1):
            a, beta = v @ w + c, step / steps
            total += (softplus(beta * a) - softplus((step - 1) / steps * a)).sum(axis=1)
            h = uniform(int(seed), counter + 2 * step - 1, *a.shape) < sigmoid(beta * a)
            logits = b + beta * (h @ transposed)
            v = uniform(int(seed), counter + 2 * step, *logits.shape) < sigmoid(logits)
        return (total,)

    def infer_shape(self, *arguments) -> list[tuple]:
        return [(arguments[-2].inputs[-4],)]


def annealed_log_weights(
    w: Any, b: Any, c: Any, *, chains: Any, steps: Any, seed: Any, counter: Any
) -> tuple[Any, Any]:
    """Return the logarithms of the weights, (chains,), and the number of counters used.

    Parameters
    ----------
    w, b, c : (visible, hidden), (visible,), (hidden,)
    chains, steps : chains, and inverse temperatures after the first
    """
    return AnnealedWeights()(w, w.T, b, c, chains, steps, seed, counter), 2 * steps + 1

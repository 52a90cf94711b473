"""The numbers every contender starts from, and Algorithm 1 in plain numpy as their reference.

Symbols: `p{l}.W` (upper, lower) and `q{l}.W` (lower, upper) as in `model.npz`, l = 0 at the data,
`p{L}.b` the top prior. `w_k` are the normalised weights of Algorithm 1; q's gradient takes
`w_k - 1/K`, which has the same expectation in the limit and far less variance.
"""

from __future__ import annotations

import numpy as np

from benchmarks.architectures import Case

__all__ = [
    "ADAM",
    "L1",
    "batches",
    "gradient_reference",
    "initial_parameters",
    "parameter_names",
    "relative_error",
    "uniforms",
]

L1 = 1e-3
ADAM = {"rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}


def parameter_names(depth: int) -> list:
    """Names of the parameters of a model of `depth` latent layers."""
    layered = [f"{side}{layer}.{part}" for layer in range(depth) for side in "pq" for part in "Wb"]
    return [*layered, f"p{depth}.b"]


def initial_parameters(case: Case, seed: int = 0) -> dict:
    """Name -> float32 array; Glorot's range, so that weights and residuals are all alive."""
    random = np.random.RandomState(seed)
    sizes, values = case.sizes, {}
    for layer, (lower, upper) in enumerate(zip(sizes[:-1], sizes[1:])):
        bound = np.sqrt(6.0 / (lower + upper))
        values[f"p{layer}.W"] = random.uniform(-bound, bound, (upper, lower))
        values[f"p{layer}.b"] = np.full(lower, case.bias)
        values[f"q{layer}.W"] = random.uniform(-bound, bound, (lower, upper))
        values[f"q{layer}.b"] = np.full(upper, case.bias)
    values[f"p{case.depth}.b"] = np.full(sizes[-1], case.bias)
    return {name: value.astype(np.float32) for name, value in values.items()}


def batches(case: Case, count: int, seed: int = 0) -> np.ndarray:
    """Binary data, float32 of shape (count, batch, data_dim), `case.active` of them ones."""
    random = np.random.RandomState(seed + 1)
    drawn = random.uniform(size=(count, case.batch, case.data_dim))
    return (drawn < case.active).astype(np.float32)


def uniforms(case: Case, seed: int = 0) -> list:
    """Uniform numbers for the latent layers, from the data up, each (batch, samples, units)."""
    random = np.random.RandomState(seed + 2)
    return [
        random.uniform(size=(case.batch, case.samples, units)).astype(np.float32)
        for units in case.layers
    ]


def _bernoulli(values: np.ndarray, logits: np.ndarray) -> tuple:
    """Row log-probability (...,) and residual (..., units) of `values` (..., units)."""
    log_probability = (values * logits - np.logaddexp(0.0, logits)).sum(-1)
    return log_probability, 1.0 / (1.0 + np.exp(-logits)) - values


def gradient_reference(parameters: dict, x: np.ndarray, draws: list) -> tuple:
    """Algorithm 1 for given uniform numbers, in float64, for the sum over the batch.

    `x` is (batch, data_dim), `draws` as `uniforms` gives them. Returns (descent gradients by
    name without the L1 term, log r = log p(x, h) - log q(h|x) of shape (batch, samples)).
    """
    depth = len(draws)
    values = {name: np.asarray(value, np.float64) for name, value in parameters.items()}
    samples = draws[0].shape[1]
    states = [np.repeat(np.asarray(x, np.float64)[:, None], samples, axis=1)]
    log_q, log_p, residuals = 0.0, 0.0, {}
    for layer, draw in enumerate(draws):
        logits = states[-1] @ values[f"q{layer}.W"] + values[f"q{layer}.b"]
        states.append((draw < 1.0 / (1.0 + np.exp(-logits))).astype(np.float64))
        row, residuals[f"q{layer}"] = _bernoulli(states[-1], logits)
        log_q = log_q + row
    for layer in range(depth + 1):
        logits = values[f"p{layer}.b"] + np.zeros_like(states[layer])
        if layer < depth:
            logits = logits + states[layer + 1] @ values[f"p{layer}.W"]
        row, residuals[f"p{layer}"] = _bernoulli(states[layer], logits)
        log_p = log_p + row
    log_r = log_p - log_q
    weights = np.exp(log_r / 2 - np.logaddexp.reduce(log_r / 2, axis=1)[:, None])
    gradients = {}
    for name, residual in residuals.items():
        layer = int(name[1:])
        scaled = residual * (weights - (1.0 / samples if name[0] == "q" else 0.0))[..., None]
        gradients[f"{name}.b"] = scaled.sum((0, 1))
        source = states[layer] if name[0] == "q" else states[min(layer + 1, depth)]
        if f"{name}.W" in values:
            gradients[f"{name}.W"] = np.einsum("nki,nkj->ij", source, scaled)
    return gradients, log_r


def relative_error(found: dict, expected: dict) -> float:
    """Largest difference over all entries, relative to the largest entry of each array."""
    if set(found) != set(expected):
        raise ValueError(f"names differ: {sorted(set(found) ^ set(expected))}")
    return max(
        float(np.abs(np.asarray(found[name], np.float64) - value).max())
        / max(float(np.abs(value).max()), 1e-12)
        for name, value in expected.items()
    )

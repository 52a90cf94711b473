"""The fused Ops in JAX, as pure functions of arrays; XLA does the fusing.

The same mathematics as each Op's ``perform``, from the same random numbers. Nothing is overwritten:
where an Op works in place, its JAX form returns new arrays, and XLA reuses the donated memory.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bihm_repro.ops.jax_random_numbers import uniform

__all__ = [
    "affine",
    "repeated",
    "row_log_probability",
    "sample_layer",
    "score_layer",
    "summed_residual",
    "weighted_gradient",
]


def _logits(arrays: tuple):
    if len(arrays) == 1:
        return arrays[0]
    return affine(*arrays)


def affine(x, weights, bias):
    """x W + b; see ``affine.affine``."""
    if x.shape[1] != weights.shape[0] or weights.shape[1] != bias.shape[0]:
        raise ValueError(f"shapes do not fit: {x.shape}, {weights.shape}, {bias.shape}")
    return x @ weights + bias


def repeated(rows, repeats: int):
    """Each row ``repeats`` times, side by side."""
    n, units = rows.shape
    return jnp.broadcast_to(rows[:, None, :], (n, repeats, units)).reshape(n * repeats, units)


def row_log_probability(values, logits, mean):
    """Sums over units of v logit - softplus(logit), where ``mean`` is sigmoid(logit).

    softplus(a) = max(a, 0) - log sigmoid(|a|): the exponential inside the mean does for both.
    """
    softplus = jnp.maximum(logits, 0) - jnp.log(jnp.maximum(mean, 1 - mean))
    return (values * logits - softplus).sum(axis=1)


def sample_layer(arrays: tuple, repeats, seed, counter, wants: str) -> tuple:
    """``arrays`` is (x, W, b) or (logits,); see ``bernoulli.sample_layer``."""
    logits = _logits(arrays)
    rows = repeated(logits, int(repeats))
    mean = jax.nn.sigmoid(rows)
    sample = (uniform(seed, counter, *rows.shape) < mean).astype(rows.dtype)
    outputs = sample, row_log_probability(sample, rows, mean)
    if wants == "residual":
        return *outputs, mean - sample
    if wants == "mean":
        return *outputs, jax.nn.sigmoid(logits)
    return outputs


def score_layer(values, arrays: tuple, wants_residual: bool):
    """``arrays`` is (h, W, b) or (logits,); see ``bernoulli.score_layer``."""
    logits = _logits(arrays)
    if logits.shape[0] % values.shape[0] or logits.shape[1] != values.shape[1]:
        raise ValueError(f"shapes do not fit: values {values.shape}, logits {logits.shape}")
    values = repeated(values, logits.shape[0] // values.shape[0])
    mean = jax.nn.sigmoid(logits)
    log_p = row_log_probability(values, logits, mean)
    return (log_p, mean - values) if wants_residual else log_p


def weighted_gradient(a, r, weight) -> tuple:
    """a^T diag(weight) r and weight^T r; see ``gradients.weighted_gradient``."""
    scaled = r * weight[:, None]
    return a.T @ scaled, scaled.sum(axis=0)


def summed_residual(mean, sample, weight):
    """sum_k weight_ik (mean_i - sample_ik); see ``gradients.summed_residual``."""
    n, units = mean.shape
    drawn = sample.reshape(n, -1, units)
    weight = weight.reshape(n, -1, 1)
    return (weight * (mean[:, None, :] - drawn)).sum(axis=1)

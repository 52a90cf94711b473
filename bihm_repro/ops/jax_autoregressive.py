"""The Ops of ``autoregressive`` in JAX: a scan over the units of the layer."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bihm_repro.ops.jax_forms import repeated, row_log_probability
from bihm_repro.ops.jax_random_numbers import uniform

__all__ = ["nade_gradient", "sample_darn", "sample_nade", "score_darn", "score_nade"]


def sample_darn(base, a, repeats, seed, counter, *, wants_residual: bool) -> tuple:
    """See ``autoregressive.sample_darn``."""
    logits, a = repeated(base, int(repeats)), jnp.triu(a, 1)
    u = uniform(seed, counter, *logits.shape)

    def step(logits, unit):
        i, u_i, weights = unit
        drawn = (u_i < jax.nn.sigmoid(logits[:, i])).astype(logits.dtype)
        return logits + drawn[:, None] * weights, drawn

    logits, sample = jax.lax.scan(step, logits, (jnp.arange(len(a)), u.T, a))
    return _sampled(sample.T, logits, wants_residual)


def score_darn(values, base, a, wants_residual: bool):
    """See ``autoregressive.score_darn``."""
    values, base = _same_rows(values, base)
    return _scored(values, base + values @ jnp.triu(a, 1), wants_residual)


def sample_nade(base, start, into, out, repeats, seed, counter, *, wants_residual: bool) -> tuple:
    """See ``autoregressive.sample_nade``."""
    base, start = repeated(base, int(repeats)), repeated(start, int(repeats))
    u = uniform(seed, counter, *base.shape)

    def step(hidden, unit):
        base_i, u_i, into_i, out_i = unit
        logit = base_i + jax.nn.sigmoid(hidden) @ out_i
        drawn = (u_i < jax.nn.sigmoid(logit)).astype(logit.dtype)
        return hidden + drawn[:, None] * into_i, (drawn, logit)

    _, (sample, logits) = jax.lax.scan(step, start, (base.T, u.T, into, out))
    return _sampled(sample.T, logits.T, wants_residual)


def score_nade(values, base, start, into, out, *, wants_residual: bool):
    """See ``autoregressive.score_nade``."""
    values, base, start = _same_rows(values, base, start)

    def step(hidden, unit):
        base_i, value, into_i, out_i = unit
        return hidden + value[:, None] * into_i, base_i + jax.nn.sigmoid(hidden) @ out_i

    _, logits = jax.lax.scan(step, start, (base.T, values.T, into, out))
    return _scored(values, logits.T, wants_residual)


def nade_gradient(values, start, into, out, derivatives) -> tuple:
    """See ``autoregressive.nade_gradient``."""
    values, start, derivatives = _same_rows(values, start, derivatives)

    def step(carry, unit):
        hidden, back = carry
        value, d, into_i, out_i = unit
        hidden = hidden - value[:, None] * into_i
        s = jax.nn.sigmoid(hidden)
        gradients = value @ back, d @ s
        return (hidden, back + d[:, None] * out_i * s * (1 - s)), gradients

    first = start + values @ into, jnp.zeros_like(start)
    units = values.T, derivatives.T, into, out
    (_, back), gradients = jax.lax.scan(step, first, units, reverse=True)
    return (*gradients, back)


def _same_rows(*arrays) -> list:
    rows = max(len(array) for array in arrays)
    if any(rows % len(array) for array in arrays):
        raise ValueError(f"rows do not fit: {[len(array) for array in arrays]}")
    return [repeated(array, rows // len(array)) for array in arrays]


def _sampled(sample, logits, wants_residual: bool) -> tuple:
    mean = jax.nn.sigmoid(logits)
    outputs = sample, row_log_probability(sample, logits, mean)
    return (*outputs, mean - sample) if wants_residual else outputs


def _scored(values, logits, wants_residual: bool):
    mean = jax.nn.sigmoid(logits)
    log_p = row_log_probability(values, logits, mean)
    return (log_p, mean - values) if wants_residual else log_p

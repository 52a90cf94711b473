"""The fused Ops in JAX, as pure functions of arrays; XLA does the fusing.

The same mathematics as each Op's ``reference``, from the same random numbers, by the names that the
Ops have in ``jax_name``. Each returns a tuple of outputs.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bihm_repro.ops.images import gradient_of_images
from bihm_repro.ops.jax_random_numbers import uniform

# -- products


def affine(x, weights, bias) -> tuple:
    """x W + b."""
    if x.shape[1] != weights.shape[0] or weights.shape[1] != bias.shape[0]:
        raise ValueError(f"shapes do not fit: {x.shape}, {weights.shape}, {bias.shape}")
    return (x @ weights + bias,)


def weighted_gradient(a, r, weight) -> tuple:
    """a^T diag(weight) r and weight^T r."""
    scaled = r * weight[:, None]
    return a.T @ scaled, scaled.sum(axis=0)


def summed_residual(mean, sample, weight) -> tuple:
    """sum_k weight_ik (mean_i - sample_ik)."""
    n, units = mean.shape
    drawn = sample.reshape(n, -1, units)
    weight = weight.reshape(n, -1, 1)
    return ((weight * (mean[:, None, :] - drawn)).sum(axis=1),)


def column_means(a) -> tuple:
    """The mean of the rows."""
    return (a.mean(axis=0),)


# -- activations and penalties


def tanh(x) -> tuple:
    """The hyperbolic tangent."""
    return (jnp.tanh(x),)


def total_variation_gradient(images, height, width) -> tuple:
    """The gradient of the total variation of rows that are images."""
    return (gradient_of_images(jnp, images, int(height), int(width)),)


# -- Bernoulli layers


def sample_layer(*inputs, residual: bool, mean: bool) -> tuple:
    """Draw from x, W, b or logits, followed by repeats, seed, counter."""
    *arrays, repeats, seed, counter = inputs
    logits = _logits(arrays)
    rows = _repeated(logits, int(repeats))
    means = jax.nn.sigmoid(rows)
    sample = (uniform(seed, counter, *rows.shape) < means).astype(rows.dtype)
    found = [sample, _log_probability(sample, rows, means)]
    found += [means - sample] if residual else []
    return tuple(found + [jax.nn.sigmoid(logits)] if mean else found)


def score_layer(values, *arrays, residual: bool) -> tuple:
    """Score under h, W, b or logits."""
    logits = _logits(arrays)
    if logits.shape[0] % values.shape[0] or logits.shape[1] != values.shape[1]:
        raise ValueError(f"shapes do not fit: values {values.shape}, logits {logits.shape}")
    return _scored(_repeated(values, logits.shape[0] // values.shape[0]), logits, residual)


def _logits(arrays):
    return arrays[0] if len(arrays) == 1 else affine(*arrays)[0]


def _repeated(rows, repeats: int):
    """Each row ``repeats`` times, side by side."""
    n, units = rows.shape
    return jnp.broadcast_to(rows[:, None, :], (n, repeats, units)).reshape(n * repeats, units)


def _log_probability(values, logits, mean):
    """Sums over units of v logit - softplus(logit), where ``mean`` is sigmoid(logit).

    softplus(a) = max(a, 0) - log sigmoid(|a|): the exponential inside the mean does for both.
    """
    softplus = jnp.maximum(logits, 0) - jnp.log(jnp.maximum(mean, 1 - mean))
    return (values * logits - softplus).sum(axis=1)


def _scored(values, logits, residual: bool) -> tuple:
    mean = jax.nn.sigmoid(logits)
    log_p = _log_probability(values, logits, mean)
    return (log_p, mean - values) if residual else (log_p,)


# -- autoregressive layers: a scan over the units


def sample_darn(base, a, repeats, seed, counter, *, residual: bool) -> tuple:
    """Draw a DARN layer."""
    logits, a = _repeated(base, int(repeats)), jnp.triu(a, 1)
    u = uniform(seed, counter, *logits.shape)

    def step(logits, unit):
        i, u_i, weights = unit
        drawn = (u_i < jax.nn.sigmoid(logits[:, i])).astype(logits.dtype)
        return logits + drawn[:, None] * weights, drawn

    logits, sample = jax.lax.scan(step, logits, (jnp.arange(len(a)), u.T, a))
    return (sample.T, *_scored(sample.T, logits, residual))


def score_darn(values, base, a, *, residual: bool) -> tuple:
    """Score under a DARN layer."""
    values, base = _same_rows(values, base)
    return _scored(values, base + values @ jnp.triu(a, 1), residual)


def sample_nade(base, start, into, out, repeats, seed, counter, *, residual: bool) -> tuple:
    """Draw a NADE layer."""
    base, start = _repeated(base, int(repeats)), _repeated(start, int(repeats))
    u = uniform(seed, counter, *base.shape)

    def step(hidden, unit):
        base_i, u_i, into_i, out_i = unit
        logit = base_i + jax.nn.sigmoid(hidden) @ out_i
        drawn = (u_i < jax.nn.sigmoid(logit)).astype(logit.dtype)
        return hidden + drawn[:, None] * into_i, (drawn, logit)

    _, (sample, logits) = jax.lax.scan(step, start, (base.T, u.T, into, out))
    return (sample.T, *_scored(sample.T, logits.T, residual))


def score_nade(values, base, start, into, out, *, residual: bool) -> tuple:
    """Score under a NADE layer."""
    values, base, start = _same_rows(values, base, start)

    def step(hidden, unit):
        base_i, value, into_i, out_i = unit
        return hidden + value[:, None] * into_i, base_i + jax.nn.sigmoid(hidden) @ out_i

    _, logits = jax.lax.scan(step, start, (base.T, values.T, into, out))
    return _scored(values, logits.T, residual)


def nade_gradient(values, start, into, out, derivatives) -> tuple:
    """Gradients with respect to R, V, and each row's start."""
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
    return [_repeated(array, rows // len(array)) for array in arrays]


# -- the others


def standard_normal(like, units, repeats, seed, counter) -> tuple:
    """Standard normal numbers."""
    rows, blocks = like.shape[0] * int(repeats), -(-int(units) // 16)
    words = uniform(seed, counter, rows, 16 * blocks)
    words = words.astype(jnp.float64).reshape(rows, blocks, 2, 8)
    radius, angle = jnp.sqrt(-2 * jnp.log(words[:, :, 0])), 2 * jnp.pi * words[:, :, 1]
    pairs = jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=2)
    drawn = pairs.reshape(rows, 16 * blocks)[:, : int(units)]
    return (drawn.astype(jnp.float32).astype(like.dtype),)


def annealed_weights(w, transposed, b, c, chains, steps, seed, counter) -> tuple:
    """Logarithms of the weights of annealed importance sampling."""
    chains, steps = int(chains), int(steps)

    def anneal(step, carry):
        v, total = carry
        a, beta = v @ w + c, (step / steps).astype(w.dtype)
        before = ((step - 1) / steps).astype(w.dtype)
        total = total + (jax.nn.softplus(beta * a) - jax.nn.softplus(before * a)).sum(axis=1)
        u = uniform(seed, counter + 2 * step - 1, *a.shape)
        h = (u < jax.nn.sigmoid(beta * a)).astype(w.dtype)
        logits = b + beta * (h @ transposed)
        u = uniform(seed, counter + 2 * step, *logits.shape)
        return (u < jax.nn.sigmoid(logits)).astype(w.dtype), total

    first = uniform(seed, counter, chains, b.shape[0]) < jax.nn.sigmoid(b)
    start = first.astype(w.dtype), jnp.zeros(chains, w.dtype)
    return (jax.lax.fori_loop(1, steps + 1, anneal, start)[1],)

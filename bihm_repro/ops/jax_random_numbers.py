"""The random numbers of ``random_numbers`` in JAX: the same bits, for shapes known when compiled.

Only 32-bit additions, rotations and exclusive ors are needed, so XLA computes the numbers
in the loop that uses them.
"""

from __future__ import annotations

import jax.numpy as jnp

from bihm_repro.ops.random_numbers import encrypted

__all__ = ["uniform"]


def _words(number) -> tuple:
    """Return the low and the high 32 bits of an integer array of 32 or 64 bits."""
    number = jnp.asarray(number)
    low = number.astype(jnp.uint32)
    if number.dtype.itemsize < 8:
        return low, jnp.zeros_like(low)
    return low, (number >> 32).astype(jnp.uint32)


def counter_key(seed, counter) -> tuple:
    """Return the key of ``counter`` under ``seed``."""
    (k0, k1), (x0, x1) = _words(seed), _words(counter)
    return encrypted(k0, k1, x0, x1)


def random_bits(seed, counter, rows: int, columns: int):
    """Return random 32-bit words of shape ``(rows, columns)``, both Python integers."""
    if rows < 1 or columns < 1:
        raise ValueError(f"{rows} rows of {columns} random numbers: a count is below 1")
    blocks = -(-columns // 16)
    slots = jnp.broadcast_to(jnp.arange(blocks * 8, dtype=jnp.uint32), (rows, blocks * 8))
    lines = jnp.broadcast_to(jnp.arange(rows, dtype=jnp.uint32)[:, None], slots.shape)
    k0, k1 = counter_key(seed, counter)
    words = encrypted(k0, k1, slots, lines)
    paired = jnp.stack([word.reshape(rows, blocks, 8) for word in words], axis=2)
    return paired.reshape(rows, blocks * 16)[:, :columns]


def uniform(seed, counter, rows: int, columns: int):
    """Return float32 ``(rows, columns)``: midpoints of 2**23 equal parts of (0, 1)."""
    bits = random_bits(seed, counter, rows, columns)
    return ((bits >> 9).astype(jnp.float32) + jnp.float32(0.5)) * jnp.float32(2.0**-23)

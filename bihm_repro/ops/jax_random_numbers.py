"""The random numbers of ``random_numbers`` in JAX: the same bits, for shapes known when compiled.

Only 32-bit additions, rotations and exclusive ors are needed, so XLA computes the numbers
in the loop that uses them.
"""

from __future__ import annotations

import jax.numpy as jnp

__all__ = ["threefry2x32", "counter_key", "random_bits", "uniform"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry2x32(key: tuple, counter: tuple) -> tuple:
    """Encrypt ``counter`` (two uint32 arrays of one shape) under ``key`` (two uint32)."""
    (k0, k1), (x0, x1) = key, counter
    schedule = (k0, k1, k0 ^ k1 ^ jnp.uint32(0x1BD11BDA))
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << rotation) | (x1 >> (32 - rotation))
            x1 = x1 ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return x0, x1


def _words(number) -> tuple:
    """Return the low and the high 32 bits of an integer array of 32 or 64 bits."""
    number = jnp.asarray(number)
    low = number.astype(jnp.uint32)
    if number.dtype.itemsize < 8:
        return low, jnp.zeros_like(low)
    return low, (number >> 32).astype(jnp.uint32)


def counter_key(seed, counter) -> tuple:
    """Return the key of ``counter`` under ``seed``."""
    return threefry2x32(_words(seed), _words(counter))


def random_bits(seed, counter, rows: int, columns: int):
    """Return random 32-bit words of shape ``(rows, columns)``, both Python integers."""
    if rows < 1 or columns < 1:
        raise ValueError(f"{rows} rows of {columns} random numbers: a count is below 1")
    blocks = -(-columns // 16)
    slots = jnp.broadcast_to(jnp.arange(blocks * 8, dtype=jnp.uint32), (rows, blocks * 8))
    lines = jnp.broadcast_to(jnp.arange(rows, dtype=jnp.uint32)[:, None], slots.shape)
    words = threefry2x32(counter_key(seed, counter), (slots, lines))
    paired = jnp.stack([word.reshape(rows, blocks, 8) for word in words], axis=2)
    return paired.reshape(rows, blocks * 16)[:, :columns]


def uniform(seed, counter, rows: int, columns: int):
    """Return float32 ``(rows, columns)``: midpoints of 2**23 equal parts of (0, 1)."""
    bits = random_bits(seed, counter, rows, columns)
    return ((bits >> 9).astype(jnp.float32) + jnp.float32(0.5)) * jnp.float32(2.0**-23)

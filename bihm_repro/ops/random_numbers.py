"""Counter-based random numbers: Threefry-2x32 with 20 rounds (Salmon et al., 2011).

Every number is a pure function of (seed, counter, row, column). The key of a call is the cipher of
its counter under the seed; the cipher then encrypts (slot, row), and a slot gives two 32-bit words.
Columns are taken sixteen at a time, so that eight vector lanes hold eight slots: lane ``j`` gives
column ``j`` from its first word and column ``j + 8`` from its second. This numpy form is the
reference; C and JAX give the same bits.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from bihm_repro.errors import InputError

__all__ = ["encrypted", "normal", "seed_for", "uniform"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_MAXIMUM = 2**31 - 1
_WORDS_AT_ONCE = 2**15


def threefry2x32(key: tuple, counter: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Encrypt ``counter`` (two uint32 arrays of one shape) under ``key`` (two uint32)."""
    words = (np.asarray(word, dtype=np.uint32) for word in (*key, *counter))
    with np.errstate(over="ignore"):
        return encrypted(*words)


def encrypted(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Return the cipher of (x0, x1) under (k0, k1), uint32 arrays of numpy or JAX."""
    schedule = (k0, k1, k0 ^ k1 ^ _PARITY)
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 = x1 ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def counter_key(seed: int, counter: int) -> tuple[np.ndarray, np.ndarray]:
    """The key of ``counter`` under ``seed``."""
    for name, value in (("seed", seed), ("counter", counter)):
        if not 0 <= value < 2**63:
            raise InputError(f"{name} is {value}: an integer from 0 up to 2**63 is needed")
    key = np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32)
    return threefry2x32(key, (np.uint32(counter & 0xFFFFFFFF), np.uint32(counter >> 32)))


def random_bits(seed: int, counter: int, rows: int, columns: int) -> np.ndarray:
    """Random 32-bit words of shape ``(rows, columns)``."""
    key, blocks = counter_key(int(seed), int(counter)), -(-columns // 16)
    slots = np.arange(blocks * 8, dtype=np.uint32)
    bits = np.empty((rows, blocks, 2, 8), dtype=np.uint32)
    # Parts that stay in the cache while the cipher goes over them a hundred times.
    step = max(1, _WORDS_AT_ONCE // max(1, slots.size))
    for start in range(0, rows, step):
        lines = np.arange(start, min(rows, start + step), dtype=np.uint32)[:, None]
        words = threefry2x32(key, tuple(np.broadcast_arrays(slots, lines)))
        for word, values in enumerate(words):
            bits[start : start + step, :, word] = values.reshape(-1, blocks, 8)
    return bits.reshape(rows, blocks * 16)[:, :columns]


def uniform(seed: int, counter: int, rows: int, columns: int) -> np.ndarray:
    """Uniform float32 of shape ``(rows, columns)``: midpoints of 2**23 equal parts of (0, 1).

    Midpoints, so that neither 0 nor 1 occurs: a unit of probability 0 is never drawn, one of
    probability 1 always.
    """
    bits = random_bits(seed, counter, rows, columns)
    return ((bits >> np.uint32(9)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-23)


def normal(seed: int, counter: int, rows: int, columns: int) -> np.ndarray:
    """Standard normal float32 of shape ``(rows, columns)``; see ``ops.normal``."""
    blocks = -(-columns // 16)
    words = uniform(seed, counter, rows, 16 * blocks).astype(np.float64).reshape(rows, blocks, 2, 8)
    radius, angle = np.sqrt(-2 * np.log(words[:, :, 0])), 2 * np.pi * words[:, :, 1]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return pairs.reshape(rows, 16 * blocks)[:, :columns].astype(np.float32)


def seed_for(seed: int, purpose: str) -> int:
    """A 31-bit seed for one purpose, so that e.g. training and evaluation share no numbers."""
    word, _ = counter_key(int(seed), zlib.crc32(purpose.encode()))
    return int(word) & _MAXIMUM

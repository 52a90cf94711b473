"""Bernoulli draws from grey levels that depend on nothing but a key and a position.

The bits are the raw output of numpy's Philox generator, a counter-based one whose raw output is
fixed across versions of numpy; row ``i`` of a draw always uses the same counters, so a part of a
draw can be made without the part before it.
"""

from __future__ import annotations

import zlib

import numpy as np

__all__ = ["bernoulli", "fixed_draw", "probabilities", "uniform_rows"]

_WORDS_PER_COUNTER = 8
"""A Philox counter gives four 64-bit words, so eight of 32 bits."""


def uniform_rows(key: tuple[int, int], first_row: int, rows: int, dim: int) -> np.ndarray:
    """Return ``(rows, dim)`` float32 uniforms in [0, 1): rows ``first_row`` on of draw ``key``."""
    counters = -(-dim // _WORDS_PER_COUNTER)
    generator = np.random.Philox(key=list(key))
    if first_row:
        generator.advance(first_row * counters)
    words = generator.random_raw(rows * counters * 4).astype("<u8", copy=False).view("<u4")
    words = words.reshape(rows, counters * _WORDS_PER_COUNTER)[:, :dim]
    # 24 bits are what a float32 holds exactly: never rounds up to 1.
    return (words >> 8).astype(np.float32) * np.float32(2.0 ** -24)


def bernoulli(grey: np.ndarray, key: tuple[int, int], first_row: int = 0) -> np.ndarray:
    """Draw 0/1 (boolean) from the probabilities ``grey``, ``(rows, dim)`` in [0, 1]."""
    return uniform_rows(key, first_row, *grey.shape) < grey


def probabilities(rows: np.ndarray, levels: int) -> np.ndarray:
    """Turn stored grey levels ``0..levels`` into float32 probabilities in [0, 1]."""
    result = rows.astype(np.float32)
    if levels != 1:
        result /= np.float32(levels)
    return result


def fixed_draw(rows: np.ndarray, levels: int, purpose: str) -> np.ndarray:
    """Binarize stored grey levels once and for all: the same ``purpose``, the same draw (uint8)."""
    key = (0x6669_7865, zlib.crc32(purpose.encode()))
    result = np.empty(rows.shape, dtype=np.uint8)
    for start in range(0, len(rows), 4096):
        part = slice(start, start + 4096)
        result[part] = bernoulli(probabilities(rows[part], levels), key, start)
    return result

"""Functions of numpy arrays that several folders need, each defined once."""

from __future__ import annotations

import numpy as np

__all__ = ["log_bernoulli", "log_mean_exp", "sigmoid", "softplus"]


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-logits)), without overflow."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1, small) / (1 + small)


def softplus(logits: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(logits)), without overflow."""
    # log(1 + e) is several times faster than log1p, and its error is below the float32 rounding
    # of 1; in place, because these arrays are the largest that the samplers have.
    result = np.abs(logits)
    np.negative(result, out=result)
    np.exp(result, out=result)
    result += 1
    np.log(result, out=result)
    result += np.maximum(logits, 0)
    return result


def log_bernoulli(values: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Return the log-probabilities of binary ``values``, summed over the last axis."""
    products = np.einsum("...i,...i->...", values, logits)
    return products - softplus(logits).sum(axis=-1)


def log_mean_exp(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return log(mean(exp(values))) along ``axis``, without overflow; -inf is allowed."""
    top = values.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - top).mean(axis=axis)) + np.squeeze(top, axis)

"""Step rules: from parameters, gradients and a learning rate to the updates of one step.

Gradients are those of descent: of the sum over the mini-batch of the negative objective, to
which the penalties on the weights are added. Every rule is a plain function

    rule(parameters, gradients, rate) -> Step(updates, state)

where ``rate`` is a symbolic scalar, ``updates`` the ordered list of (variable, new value) and
``state`` the named shared variables that a checkpoint has to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bihm_repro.engine.symbolic import T, shared
from bihm_repro.ops.adam import DECAY1, DECAY2, EPSILON

__all__ = ["RULES", "Step", "adam", "adam_rate", "clipped", "zeros_like"]


class Step(NamedTuple):
    """The updates of one step, and the state variables that they keep."""

    updates: list[tuple[Any, Any]]
    state: list[Any]


Rule = Callable[[Sequence[Any], Sequence[Any], Any], Step]


def sgd(parameters: Sequence[Any], gradients: Sequence[Any], rate: Any) -> Step:
    """Plain descent: ``w <- w - rate * g``."""
    return Step([(w, w - rate * g) for w, g in zip(parameters, gradients)], [])


def momentum(
    parameters: Sequence[Any], gradients: Sequence[Any], rate: Any, decay: float = 0.9
) -> Step:
    """Descent with momentum: ``v <- decay * v - rate * g``, ``w <- w + v``."""
    updates, state = [], []
    for w, g in zip(parameters, gradients):
        velocity = zeros_like(w, "momentum.velocity")
        step = np.float32(decay) * velocity - rate * g
        updates += [(velocity, step), (w, w + step)]
        state.append(velocity)
    return Step(updates, state)


def rmsprop(
    parameters: Sequence[Any],
    gradients: Sequence[Any],
    rate: Any,
    decay: float = 0.9,
    epsilon: float = 1e-6,
) -> Step:
    """Descent scaled by a running root mean square: ``w <- w - rate * g / sqrt(r + epsilon)``."""
    kept, rest, small = np.float32(decay), np.float32(1 - decay), np.float32(epsilon)
    updates, state = [], []
    for w, g in zip(parameters, gradients):
        mean_square = zeros_like(w, "rmsprop.mean_square")
        new = kept * mean_square + rest * T.sqr(g)
        updates += [(mean_square, new), (w, w - rate * g / T.sqrt(new + small))]
        state.append(mean_square)
    return Step(updates, state)


def adam(parameters: Sequence[Any], gradients: Sequence[Any], rate: Any) -> Step:
    """Adam (Kingma and Ba, 2015), in the form that folds the bias corrections into the rate.

    The plain symbolic graph: the reference that ``fused_step`` has to equal.
    """
    count, rate_now = adam_rate(rate)
    updates, state = [(count, count + 1)], [count]
    for w, g in zip(parameters, gradients):
        first, second = zeros_like(w, "adam.first"), zeros_like(w, "adam.second")
        m = np.float32(DECAY1) * first + np.float32(1 - DECAY1) * g
        v = np.float32(DECAY2) * second + np.float32(1 - DECAY2) * T.sqr(g)
        step = rate_now * m / (T.sqrt(v) + np.float32(EPSILON))
        updates += [(first, m), (second, v), (w, w - step)]
        state += [first, second]
    return Step(updates, state)


RULES: Mapping[str, Rule] = {"adam": adam, "rmsprop": rmsprop, "momentum": momentum, "sgd": sgd}


def clipped(gradients: Sequence[Any], norm: float) -> list[Any]:
    """Scale all gradients together so that their joint Euclidean norm is at most ``norm``."""
    length = T.sqrt(sum(T.sqr(g).sum() for g in gradients))
    limit = np.float32(norm)
    factor = limit / T.maximum(length, limit)
    return [g * factor for g in gradients]


def adam_rate(rate: Any) -> tuple[Any, Any]:
    """Return the counter of steps and the rate with both bias corrections, float32."""
    count = shared(np.int64(0), name="adam.count")
    # In float32, 1 - DECAY2**t has lost four digits at t = 1.
    t = T.cast(count + 1, "float64")
    corrected = T.cast(rate, "float64") * T.sqrt(1 - DECAY2**t) / (1 - DECAY1**t)
    return count, T.cast(corrected, "float32")


def zeros_like(parameter: Any, prefix: str) -> Any:
    """Return a shared variable of zeros with the shape of ``parameter``, named ``prefix.name``."""
    value = parameter.get_value(borrow=True)
    return shared(np.zeros_like(value), name=f"{prefix}.{parameter.name}")

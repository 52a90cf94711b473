"""New initial values for dead units, or for all layers above one.

A unit is dead where q switches it on, or off, for no example: its probability under
q(h_l | h_{l-1}) is close to 0 (or to 1) for all of them. All K samples then agree on it, so the
control variate leaves it no gradient, and it stays dead at any learning rate. Nothing depends on
it, so it can be given the values of an untrained unit, which add noise until it has learned: what a
unit that is always on contributed is the same for all examples and goes to its neighbours' biases.

Where most units of a layer have died, restarted ones may die again (on ocr_letters they do),
presumably because those that are left already explain the layer below. Trained by themselves as a
model of that layer, which stays as it is, new layers above it kept far more of their units there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.samplers.helmholtz import HelmholtzSampler

__all__ = ["dead_units", "with_layers_above", "with_restarted_units"]

SPREAD = 0.02
"""The probability of a dead unit varies by less than this standard deviation..."""
MARGIN = 0.02
"""...around a mean that is closer than this to 0 or 1."""


def dead_units(model: HelmholtzSampler, x: np.ndarray, seed: int = 0) -> list[np.ndarray]:
    """Return what the units of each latent layer, from the data up, are stuck at on ``x`` (n, dim).

    Each is an array (units,) with 0 or 1 for a dead unit and NaN for one that is in use.
    """
    random = RandomStream(seed, "dead units")
    below, found = np.asarray(x, np.float32), []
    for level in range(1, model.depth + 1):
        conditional = model.q_given(level, below)
        below = conditional.sample(random)
        probabilities = conditional.probabilities(below)
        mean = probabilities.mean(axis=0, dtype=np.float64)
        spread = probabilities.std(axis=0, dtype=np.float64)
        stuck_at = np.round(mean)
        dead = (spread < SPREAD) & (abs(mean - stuck_at) < MARGIN)
        found.append(np.where(dead, stuck_at, np.nan))
    return found


def with_restarted_units(
    values: Mapping[str, np.ndarray],
    initial: Mapping[str, np.ndarray],
    stuck_at: Sequence[np.ndarray],
) -> dict[str, np.ndarray]:
    """Return the parameters ``values`` with those of dead units replaced by ``initial`` ones.

    ``stuck_at`` is what :func:`dead_units` returns; all layers are of Bernoulli units.
    """
    new = {name: np.array(value) for name, value in values.items()}
    depth = len(stuck_at)
    for level, state in enumerate(stuck_at, start=1):
        on = state == 1
        new[f"p{level - 1}.b"] += values[f"p{level - 1}.W"][on].sum(axis=0)
        if level < depth:
            new[f"q{level}.b"] += values[f"q{level}.W"][on].sum(axis=0)
    for level, state in enumerate(stuck_at, start=1):
        dead = ~np.isnan(state)
        as_inputs, as_units = [f"p{level - 1}.W"], [f"q{level - 1}.W", f"q{level - 1}.b"]
        as_units.append(f"p{level}.b")
        if level < depth:
            as_inputs.append(f"q{level}.W")
            as_units.append(f"p{level}.W")
        for name in as_inputs:
            new[name][dead] = initial[name][dead]
        for name in as_units:
            new[name][..., dead] = initial[name][..., dead]
    return new


def with_layers_above(
    values: Mapping[str, np.ndarray], replacing: Mapping[str, np.ndarray], level: int
) -> dict[str, np.ndarray]:
    """Return the parameters ``values`` with those above h_l, l = ``level``, from ``replacing``.

    >>> zeros, ones = ({name: value for name in ("p0.W", "q0.W", "p1.b")} for value in (0, 1))
    >>> with_layers_above(zeros, ones, 1)
    {'p0.W': 0, 'q0.W': 0, 'p1.b': 1}
    """
    above = {name for name in values if int(name.split(".")[0][1:]) >= level}
    return {name: replacing[name] if name in above else values[name] for name in values}

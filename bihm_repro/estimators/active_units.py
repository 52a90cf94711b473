"""Active units and information, layer by layer: how much of a deep model is in use.

Training can leave units, and entire upper layers, inactive: their probabilities under
q(h_l | h_{l-1}) no longer depend on x. For h ~ q(h|x) over examples x, a unit is active where its
probability varies with a standard deviation of more than 0.1 (after Burda et al., 2015). The
information that layer l gives p about the layer below is

    E[log p(h_{l-1} | h_l)] - sum_j E[log B(h_{l-1,j} | its mean)]

in nats: how much better the layer below is predicted than by its units' means alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bihm_repro.bricks.plugins import resolve
from bihm_repro.models import registry
from bihm_repro.ops.random_stream import RandomStream, random_rows
from bihm_repro.recipes.recipe import ModelRecipe
from bihm_repro.samplers.helmholtz import HelmholtzSampler

__all__ = ["LayerActivity", "active_units", "layer_activity"]

EXAMPLES = 1000
"""Units are counted on so many random examples."""
_VARIES = 0.1


class LayerActivity(NamedTuple):
    """The size of a latent layer, its active units, and its information in nats."""

    units: int
    active: int
    information: float


def active_units(model: HelmholtzSampler, x: np.ndarray, seed: int = 0) -> list[LayerActivity]:
    """Return the activity of each latent layer, from the data up, on ``x`` (n, data_dim)."""
    random = RandomStream(seed, "active units")
    below, found = np.asarray(x, np.float32), []
    for level in range(1, model.depth + 1):
        conditional = model.q_given(level, below)
        layer = conditional.sample(random)
        spread = conditional.probabilities(layer).std(axis=0, dtype=np.float64)
        predicted = model.p_given(level - 1, layer).log_prob(below).mean(dtype=np.float64)
        found.append(
            LayerActivity(
                model.sizes[level],
                int((spread > _VARIES).sum()),
                float(predicted + _entropy(below)),
            )
        )
        below = layer
    return found


def layer_activity(
    values: Mapping[str, np.ndarray], settings: ModelRecipe, x: np.ndarray, seed: int = 0
) -> list[LayerActivity]:
    """Return the activity of each layer on up to 1,000 random rows of ``x``.

    The list is empty for a kind of model whose units cannot be counted.
    """
    kind = registry.kind(settings.kind)
    if not kind.can(registry.Capability.ACTIVE_UNITS):
        return []
    assert kind.sampler is not None
    rows = random_rows(x, min(EXAMPLES, len(x)), seed)
    return active_units(resolve(kind.sampler)(values, settings), rows, seed)


def _entropy(values: np.ndarray) -> float:
    """Return the sum of the units' own entropies, in nats."""
    mean = values.mean(axis=0, dtype=np.float64)
    inside = mean[(mean > 0) & (mean < 1)]
    return float(-(inside * np.log(inside) + (1 - inside) * np.log1p(-inside)).sum())

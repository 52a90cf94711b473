"""From a recipe's [model] section, or from stored arrays, to a model with parameters."""

from __future__ import annotations

from typing import Any

from bihm_repro.engine.symbolic import floatX
from bihm_repro.errors import InputError
from bihm_repro.models.bihm import BidirectionalHelmholtzMachine
from bihm_repro.models.iwae import ImportanceWeightedAutoencoder
from bihm_repro.models.rws import ReweightedWakeSleep
from bihm_repro.models.vae import VariationalAutoencoder

__all__ = ["KINDS", "build_model"]

KINDS = {"bihm": BidirectionalHelmholtzMachine, "rws": ReweightedWakeSleep,
         "vae": VariationalAutoencoder, "iwae": ImportanceWeightedAutoencoder}


def build_model(settings: Any, data_dim: int, seed: int = 0, dtype: str = floatX) -> Any:
    """An allocated and initialized model.

    ``settings`` has the fields of a recipe's ``model`` section (kind, layers, hidden, ...).
    """
    if settings.kind not in KINDS:
        raise InputError(f"model.kind is {settings.kind!r}: allowed are {', '.join(KINDS)}")
    model = KINDS[settings.kind](
        data_dim, settings.layers, hidden=settings.hidden, activation=settings.activation,
        weights=settings.weights, weights_scale=settings.weights_scale, bias=settings.bias,
        dtype=dtype)
    return model.allocate().initialize(seed)

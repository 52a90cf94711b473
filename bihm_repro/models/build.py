"""From a recipe's [model] section to a model with parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bihm_repro.bricks.plugins import accepted, resolve
from bihm_repro.engine.symbolic import floatX
from bihm_repro.models.registry import kind

if TYPE_CHECKING:
    from bihm_repro.models.base import Model

__all__ = ["build_model"]


def build_model(settings: Any, data_dim: int, seed: int = 0, dtype: str = floatX) -> Model:
    """Return an allocated and initialized model.

    ``settings`` has the fields of a recipe's ``model`` section; the class receives those that its
    constructor declares.
    """
    cls = resolve(kind(settings.kind).model)
    given = {**vars(settings), "layer_settings": vars(settings), "dtype": dtype}
    declared = accepted(cls) - {"layers"}
    options = {name: value for name, value in given.items() if name in declared}
    return cls(data_dim, settings.layers, **options).allocate().initialize(seed)

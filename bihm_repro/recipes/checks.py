"""What the settings of a recipe require of each other."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from bihm_repro.bricks import registry as layer_types
from bihm_repro.errors import InputError
from bihm_repro.models import registry as models
from bihm_repro.recipes.parsing import plain

__all__ = ["check_together"]


def check_together(recipe: Any, source: str) -> None:
    """Refuse a ``Recipe`` whose settings do not fit together."""
    model = recipe.model
    if not recipe.dataset:
        raise InputError(
            f"{source}: dataset is missing: give the name of a data set or the path of an .hdf5"
        )
    if not model.layers:
        raise InputError(
            f"{source}: model.layers is missing: give the latent layer sizes "
            "from the data up, such as [200, 100, 50]"
        )
    _check_model(model, source)
    _check_restarts(recipe, source)
    _check_upper_layers(recipe, source)
    nested = model.hidden and isinstance(model.hidden[0], tuple)
    if nested and len(model.hidden) != len(model.layers):
        raise InputError(
            f"{source}: model.hidden has {len(model.hidden)} lists: must be one "
            f"list for all latent layers or one for each of the {len(model.layers)}"
        )


def _check_restarts(recipe: Any, source: str) -> None:
    """Refuse to restart dead units of a model that is not made of layers of Bernoulli units."""
    wanted = [i for i, phase in enumerate(recipe.phases) if phase.restart_dead]
    if not wanted:
        return
    where = f"{source}: phases.{wanted[0]}.restart_dead = true"
    model = recipe.model
    if not models.kind(model.kind).can(models.Capability.ACTIVE_UNITS):
        raise InputError(f"{where}: a {model.kind} model has no layers of binary units")
    for name in ("p_layer", "q_layer", "prior"):
        value = getattr(model, name)
        if set([value] if isinstance(value, str) else value) != {layer_types.DEFAULT}:
            raise InputError(
                f"{where}: model.{name} = {plain(value)!r}, and only units of "
                f"{layer_types.DEFAULT} layers can be restarted; set it to false"
            )


def _check_upper_layers(recipe: Any, source: str) -> None:
    """Refuse phases on upper layers that the model does not have, or cannot train alone."""
    model = recipe.model
    for i, phase in enumerate(recipe.phases):
        where = f"{source}: phases.{i}.above = {phase.above}"
        if phase.restart_above and not phase.above:
            raise InputError(f"{where}: phases.{i}.restart_above = true needs one of at least 1")
        if phase.above and not models.kind(model.kind).can(models.Capability.UPPER_LAYERS):
            raise InputError(f"{where}: a {model.kind} model is trained as a whole; leave it out")
        if phase.above >= len(model.layers):
            raise InputError(f"{where}: must be below {len(model.layers)}, the number of layers")


def _check_model(model: Any, source: str) -> None:
    settings = models.kind(model.kind).settings
    for item in fields(model):
        value = getattr(model, item.name)
        optional = item.name in models.OPTIONAL_SETTINGS
        if optional and item.name not in settings and value != item.default:
            raise InputError(
                f"{source}: model.{item.name} = {plain(value)!r}: a {model.kind} model does not "
                "have this setting; leave it out"
            )
    for name in ("p_layer", "q_layer"):
        where = f"{source}: model.{name}"
        layer_types.names_by_level(getattr(model, name), len(model.layers), where)
    layer_types.layer_type(model.prior, prior=True)

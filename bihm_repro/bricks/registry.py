"""The layer types: names that a recipe gives in ``model.p_layer``, ``q_layer`` and ``prior``.

A layer type is a conditional distribution of binary units, a symbolic one for training and
estimates (:class:`bihm_repro.bricks.layer.Layer`) and a numpy one for the samplers
(:class:`bihm_repro.bricks.numpy_layer.NumpyLayer`); where it can be the top of a generative model,
it has a prior in both forms too. Importing this module does not import the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional, Union

from bihm_repro.bricks.plugins import Reference, load_plugins
from bihm_repro.errors import InputError

__all__ = ["DEFAULT", "LayerType", "layer_type", "names", "names_by_level", "register"]

DEFAULT = "bernoulli"


class LayerType(NamedTuple):
    """References to the classes of a layer type; ``prior`` is None where it cannot be one."""

    name: str
    conditional: Reference
    numpy_conditional: Reference
    prior: Optional[Reference] = None
    numpy_prior: Optional[Reference] = None


_types: dict[str, LayerType] = {}


def register(
    name: str,
    conditional: Reference,
    numpy_conditional: Reference,
    prior: Reference | None = None,
    numpy_prior: Reference | None = None,
) -> None:
    """Add a layer type under ``name``, or replace the one that has this name.

    Parameters
    ----------
    conditional, prior : subclasses of ``bricks.layer.Layer`` and ``bricks.layer.Prior``
    numpy_conditional, numpy_prior : subclasses of ``bricks.numpy_layer.NumpyLayer``

    Each is a class or ``"module:Class"``; strings keep the engine from being imported before a
    layer is built.
    """
    _types[name] = LayerType(name, conditional, numpy_conditional, prior, numpy_prior)


def names() -> tuple[str, ...]:
    """Return the names of all layer types, plugins included."""
    load_plugins()
    return tuple(_types)


def layer_type(name: str, prior: bool = False) -> LayerType:
    """Return the layer type ``name``; with ``prior``, one that can be a prior."""
    allowed = [known for known in names() if not prior or _types[known].prior is not None]
    if name not in allowed:
        field = "model.prior" if prior else "model.p_layer or model.q_layer"
        raise InputError(f"{field} is {name!r}: allowed are {', '.join(allowed)}")
    return _types[name]


def names_by_level(
    given: Union[str, Sequence[str], None], depth: int, field: str = "model.p_layer"
) -> list[str]:
    """Return ``depth`` names, one for each level from the data up.

    >>> names_by_level("bernoulli", 2)
    ['bernoulli', 'bernoulli']
    """
    if given is None or isinstance(given, str):
        return [given or DEFAULT] * depth
    if len(given) != depth:
        raise InputError(
            f"{field} has {len(given)} names: give one name for all levels, or one for each of "
            f"the {depth} latent layers"
        )
    return list(given)


register(
    DEFAULT,
    conditional="bihm_repro.bricks.bernoulli:BernoulliLayer",
    numpy_conditional="bihm_repro.bricks.numpy_layer:NumpyBernoulli",
    prior="bihm_repro.bricks.bernoulli:FactorisedPrior",
    numpy_prior="bihm_repro.bricks.numpy_layer:NumpyFactorised",
)
register(
    "darn",
    conditional="bihm_repro.bricks.darn:DarnLayer",
    numpy_conditional="bihm_repro.bricks.numpy_autoregressive:NumpyDarn",
    prior="bihm_repro.bricks.darn:DarnPrior",
    numpy_prior="bihm_repro.bricks.numpy_autoregressive:NumpyDarn",
)
register(
    "nade",
    conditional="bihm_repro.bricks.nade:NadeLayer",
    numpy_conditional="bihm_repro.bricks.numpy_autoregressive:NumpyNade",
    prior="bihm_repro.bricks.nade:NadePrior",
    numpy_prior="bihm_repro.bricks.numpy_autoregressive:NumpyNadePrior",
)

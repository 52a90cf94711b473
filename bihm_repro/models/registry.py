"""The kinds of models: the only list of them, and what each can do.

Recipes, run folders, estimators, samplers and the Python classes look kinds up here. Classes are
named as ``"module:Class"`` and imported when they are needed: importing this module, or naming a
kind, does not import the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional

from bihm_repro.bricks.plugins import Reference, load_plugins
from bihm_repro.errors import InputError

__all__ = ["Capability", "DEFAULT", "OPTIONAL_SETTINGS", "kind", "kinds", "register", "require"]

DEFAULT = "bihm"
OPTIONAL_SETTINGS = ("hidden", "p_layer", "q_layer", "prior", "nade_hidden")
"""Fields of a recipe's ``model`` section that a kind may not have; the others every kind has."""


class Capability(Enum):
    """What a model may be able to do; the value completes "a X model has no ..."."""

    P_STAR = "p*"
    LOG_Z2 = "2 log Z"
    LOG_Z = "log Z by annealed importance sampling"
    EXACT_LOG_P = "exact log p"
    SAMPLES = "samples of p"
    GIBBS = "Gibbs sampling of p*"
    INPAINTING = "inpainting"
    ACTIVE_UNITS = "layers of binary units"
    UPPER_LAYERS = "training of upper layers alone"


@dataclass(frozen=True)
class Kind:
    """One kind of model; see :func:`register` for the fields."""

    name: str
    title: str
    model: Reference
    sampler: Optional[Reference] = None
    capabilities: frozenset[Capability] = frozenset()
    settings: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def can(self, capability: Capability) -> bool:
        """Whether models of this kind can do ``capability``."""
        return capability in self.capabilities


_kinds: dict[str, Kind] = {}


def register(
    name: str,
    model: Reference,
    *,
    title: str = "",
    sampler: Reference | None = None,
    capabilities: Iterable[Capability] = (),
    settings: Iterable[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> None:
    """Add a kind of model under ``name``, or replace the one that has this name.

    Parameters
    ----------
    name : what a recipe says in ``model.kind``
    model : a subclass of ``models.base.Model``
    title : how tables and Python classes call it
    sampler : a subclass of ``samplers.base.Sampler``, where models of the kind can be sampled
    capabilities : what models of the kind can do
    settings : which of ``OPTIONAL_SETTINGS`` a recipe may set
    defaults : values of the recipe's ``model`` section that its Python class starts from

    ``model`` and ``sampler`` are classes or ``"module:Class"``.
    """
    _kinds[name] = Kind(
        name,
        title or name,
        model,
        sampler,
        frozenset(capabilities),
        frozenset(settings),
        dict(defaults or {}),
    )


def kinds() -> tuple[str, ...]:
    """Return the names of all kinds, plugins included."""
    load_plugins()
    return tuple(_kinds)


def kind(name: str) -> Kind:
    """Return the kind ``name``."""
    if name not in kinds():
        raise InputError(f"model.kind is {name!r}: allowed are {', '.join(_kinds)}")
    return _kinds[name]


def require(name: str, capability: Capability, what: str = "") -> None:
    """Refuse ``what`` for a kind that cannot do ``capability``."""
    if not kind(name).can(capability):
        able = ", ".join(other for other in _kinds if _kinds[other].can(capability))
        wanted = f", which {what} needs" if what else ""
        raise InputError(
            f"a {name} model has no {capability.value}{wanted}; "
            f"it is there for: {able or 'no kind of model'}"
        )


_BINARY: dict[str, Any] = {
    "sampler": "bihm_repro.samplers.helmholtz:HelmholtzSampler",
    "capabilities": {Capability.SAMPLES, Capability.ACTIVE_UNITS},
    "settings": ("p_layer", "q_layer", "prior", "nade_hidden"),
}
_GAUSSIAN: dict[str, Any] = {
    "sampler": "bihm_repro.samplers.gaussian:GaussianSampler",
    "capabilities": {Capability.SAMPLES},
    "settings": ("hidden",),
    "defaults": {"hidden": (500, 500), "weights": "gaussian", "bias": 0.0},
}
_SINGLE = {"weights": "glorot", "bias": 0.0}

register(
    DEFAULT,
    "bihm_repro.models.bihm:BidirectionalHelmholtzMachine",
    title="BiHM",
    **{**_BINARY, "capabilities": set(Capability) - {Capability.EXACT_LOG_P, Capability.LOG_Z}},
)
register("rws", "bihm_repro.models.rws:ReweightedWakeSleep", title="RWS", **_BINARY)
register("vae", "bihm_repro.models.vae:VariationalAutoencoder", title="VAE", **_GAUSSIAN)
register("iwae", "bihm_repro.models.iwae:ImportanceWeightedAutoencoder", title="IWAE", **_GAUSSIAN)
register("nvil", "bihm_repro.models.nvil:Nvil", title="NVIL", **_BINARY)
register("vimco", "bihm_repro.models.vimco:Vimco", title="VIMCO", **_BINARY)
register(
    "nade",
    "bihm_repro.models.nade:Nade",
    title="NADE",
    sampler="bihm_repro.samplers.nade:NadeSampler",
    capabilities={Capability.EXACT_LOG_P, Capability.SAMPLES},
    defaults=_SINGLE,
)
register(
    "rbm",
    "bihm_repro.models.rbm:RestrictedBoltzmannMachine",
    title="RBM",
    sampler="bihm_repro.samplers.rbm:RbmSampler",
    capabilities={Capability.LOG_Z, Capability.SAMPLES},
    defaults=_SINGLE,
)

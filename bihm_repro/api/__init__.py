"""The Python classes: numpy in, numpy out, by scikit-learn's conventions.

>>> from bihm_repro import BiHM, load_model  # doctest: +SKIP
>>> model = load_model("mnist")  # doctest: +SKIP
>>> model.log_likelihood(x, samples=1000).log_p  # doctest: +SKIP
>>> mine = BiHM(layers=(200, 100)).fit(X)  # doctest: +SKIP

There is a class for every kind of ``models.registry``, plugins included, under its title.
"""

from __future__ import annotations

from typing import Any

from bihm_repro.api.arrays import GreyLevelsWarning
from bihm_repro.api.model import Model
from bihm_repro.api.storage import load_model, pretrained_names
from bihm_repro.models import registry

__all__ = [
    "BiHM",
    "GreyLevelsWarning",
    "IWAE",
    "Model",
    "NADE",
    "NVIL",
    "RBM",
    "RWS",
    "VAE",
    "VIMCO",
    "class_of",
    "load_model",
    "pretrained_names",
]


class BiHM(Model):
    """The bidirectional Helmholtz machine."""

    kind = "bihm"


class RWS(Model):
    """Reweighted wake-sleep: the same layers, trained without q's part in the model."""

    kind = "rws"


class VAE(Model):
    """The variational autoencoder with one layer of Gaussian latents."""

    kind = "vae"
    own_defaults = {"layers": (100,), "learning_rate": (1e-3, 3e-4), "samples": 1}


class IWAE(Model):
    """The importance-weighted autoencoder."""

    kind = "iwae"
    own_defaults = {"layers": (100,), "learning_rate": (1e-3, 3e-4), "samples": 5}


class NVIL(Model):
    """Neural variational inference and learning: the score function with learned baselines."""

    kind = "nvil"


class VIMCO(Model):
    """Variational inference for Monte Carlo objectives: the bound of K samples, without bias."""

    kind = "vimco"


class RBM(Model):
    """The restricted Boltzmann machine; ``samples`` are the Gibbs steps of an update."""

    kind = "rbm"
    own_defaults = {
        "layers": (200,),
        "samples": 5,
        "learning_rate": (3e-3, 1e-3),
        "visible_bias": "data",
        "centred": True,
    }


class NADE(Model):
    """The neural autoregressive distribution estimator: no latents, and an exact log p."""

    kind = "nade"
    own_defaults = {"layers": (200,), "samples": 1}


def class_of(kind: str) -> type[Model]:
    """Return the Python class of a kind of model."""
    title = registry.kind(kind).title
    found = globals().get(title) or next(
        (cls for cls in Model.__subclasses__() if cls.kind == kind), None
    )
    if found is None:
        name = title if title.isidentifier() else kind
        found = type(name, (Model,), {"kind": kind, "__doc__": title, "__module__": __name__})
        globals()[name] = found  # so that it can be pickled
    return found


def __getattr__(name: str) -> Any:
    """Make the class of a registered kind when its title, or its name, is asked for."""
    if not name.startswith("_"):
        for kind in registry.kinds():
            if name in (kind, registry.kind(kind).title):
                return class_of(kind)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Bidirectional Helmholtz Machines: train, evaluate, sample from and compare them.

``load_model`` and the model classes are imported from ``bihm_repro.api`` on first use, so that
``import bihm_repro`` is fast and does not choose an engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "BiHM",
    "IWAE",
    "NADE",
    "NVIL",
    "RBM",
    "RWS",
    "VAE",
    "VIMCO",
    "__version__",
    "load_model",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a public name, or the class of a registered kind, from ``bihm_repro.api``."""
    if name in __all__ or name[0].isupper():
        api = import_module("bihm_repro.api")
        if hasattr(api, name):
            return getattr(api, name)
    raise AttributeError(f"module 'bihm_repro' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted({*globals(), *__all__})

"""Bidirectional Helmholtz Machines: train, evaluate, sample from and compare them.

The public face is ``load_model`` and the model classes; everything is imported on first use, so
that ``import bihm_repro`` costs nothing and picks no engine.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BiHM", "IWAE", "RWS", "VAE", "__version__", "load_model"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the public names from ``bihm_repro.api`` when they are first asked for."""
    if name in __all__:
        from bihm_repro import api

        return getattr(api, name)
    raise AttributeError(f"module 'bihm_repro' has no attribute {name!r}")

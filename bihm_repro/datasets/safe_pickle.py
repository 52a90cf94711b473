"""Reading arrays from a pickle without running anything that the pickle names.

A pickle may call any function it can name. This reader admits the constructors of numpy's arrays
and nothing else, so a tampered file is refused instead of run.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from bihm_repro.errors import InputError

__all__ = ["load_arrays"]


def _admitted() -> dict[tuple[str, str], Any]:
    """Return what a pickle may name, under the module names of old and new numpy."""
    try:
        from numpy._core.multiarray import _reconstruct
    except ImportError:
        from numpy.core.multiarray import _reconstruct
    return {("numpy.core.multiarray", "_reconstruct"): _reconstruct,
            ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
            ("numpy", "ndarray"): np.ndarray, ("numpy", "dtype"): np.dtype}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        admitted = _admitted()
        if (module, name) not in admitted:
            raise InputError(f"the pickle names {module}.{name}, which is not a constructor of "
                             f"numpy's arrays: it is not the published file and was not run")
        return admitted[module, name]


def load_arrays(data: bytes) -> Any:
    """Unpickle tuples, lists and numpy arrays from ``data``; anything else is refused."""
    try:
        return _ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise ValueError(str(error)) from error

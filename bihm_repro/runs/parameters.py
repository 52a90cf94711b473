"""The parameters of a model in a file: ``model.npz`` of a run, with a record of what they are."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.runs.arrays import fingerprint_of, read_arrays, write_arrays
from bihm_repro.runs.checkpoint import json_entry

__all__ = ["Parameters", "read_parameters", "write_parameters"]

META = "meta"


class Parameters(dict[str, np.ndarray]):
    """Parameters by name, with what their file says of them."""

    meta: dict[str, Any]
    """``kind``, ``layers``, ``data_dim`` and ``recipe_fingerprint``, as far as they are known."""

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the names and values that were read."""
        return fingerprint_of(self)


def read_parameters(path: str | os.PathLike[str]) -> Parameters:
    """Read the parameters at ``path``; values that are not finite numbers are refused."""
    values = Parameters(read_arrays(path))
    values.meta = json_entry(values, META, str(path)) if META in values else {}
    for name, value in values.items():
        if value.dtype.kind != "f":
            raise InputError(
                f"{path}: parameter {name} has the type {value.dtype}, expected floating point"
            )
        if not np.isfinite(value).all():
            raise InputError(f"{path}: parameter {name} holds values that are not finite")
    data_dim = values.meta.get("data_dim")
    if data_dim is not None and not any(
        type(data_dim) is int and data_dim in value.shape for value in values.values()
    ):
        raise InputError(
            f"{path}: its meta has data_dim = {data_dim!r}, which is the size of no parameter"
        )
    return values


def write_parameters(
    path: str | os.PathLike[str],
    values: Mapping[str, np.ndarray],
    meta: Mapping[str, Any],
    keep: str | os.PathLike[str] | None = None,
) -> None:
    """Write parameters by name, with a JSON record of what they are."""
    write_arrays(path, {**values, META: np.array(json.dumps(meta))}, keep)

"""Code from outside the package that registers layer types and kinds of models.

A plugin is a Python module that calls :func:`bihm_repro.bricks.registry.register` or
:func:`bihm_repro.models.registry.register` when it is imported. It is named in the environment,
``BIHM_PLUGINS=my_layers,my_package.models``, or by an installed distribution in the entry point
group ``bihm_repro.plugins``. Plugins are imported once, when the first layer type or kind is
looked up.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from importlib import metadata
from typing import Any, Union

from bihm_repro.errors import InputError

__all__ = ["Reference", "accepted", "load_plugins", "resolve"]

VARIABLE = "BIHM_PLUGINS"
GROUP = "bihm_repro.plugins"

Reference = Union[str, type]
"""A class, or ``"module:Class"``, which is imported when it is needed."""

_loaded: set[str] = set()


def load_plugins() -> None:
    """Import the plugins that have not been imported yet."""
    for name in _names():
        if name in _loaded:
            continue
        _loaded.add(name)  # before the import: a plugin may look something up itself
        try:
            importlib.import_module(name)
        except Exception as error:
            _loaded.discard(name)
            raise InputError(
                f"plugin {name!r} ({VARIABLE} or the entry points {GROUP}) cannot be imported: "
                f"{type(error).__name__}: {error}; correct its name or remove it"
            ) from error


def resolve(reference: Reference | None) -> Any:
    """Return the class that ``reference`` is or names."""
    if reference is None:
        raise TypeError("there is no class to be imported")
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def accepted(cls: type) -> set[str]:
    """Return the names that the constructor of ``cls`` declares, and those it passes on."""
    names: set[str] = set()
    for base in cls.__mro__:
        if "__init__" in vars(base):
            found = inspect.signature(base.__init__).parameters.values()  # type: ignore[misc]
            names |= {parameter.name for parameter in found}
            if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in found):
                break
    return names


def _names() -> list[str]:
    given = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    return [*filter(None, given), *_installed()]


@functools.lru_cache(maxsize=1)
def _installed() -> tuple[str, ...]:
    found: Any = metadata.entry_points()
    # Python 3.9 returns a dict of groups.
    group = found.select(group=GROUP) if hasattr(found, "select") else found.get(GROUP, ())
    return tuple(sorted({entry.value for entry in group}))

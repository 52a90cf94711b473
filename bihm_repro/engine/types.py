"""Type aliases for symbolic variables; neither engine's own types describe both engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Variable", "SharedVariable", "Updates", "Compiled"]

Variable = Any
"""A symbolic tensor: ``theano.tensor.TensorVariable`` or ``pytensor.tensor.TensorVariable``."""
SharedVariable = Any
"""A symbolic tensor with a value that persists between calls."""
Updates = Sequence[tuple[SharedVariable, Variable]]
"""The new values that a compiled function assigns to shared variables."""
Compiled = Callable[..., Any]
"""A compiled function of numpy arrays."""

"""The symbolic engine's names, the same for theano and PyTensor.

Importing this module configures and imports the chosen engine; models use these names only:

``T``              the tensor module
``function``       compiles inputs, outputs and updates
``step_function``  compiles one input, outputs and updates to be called with many inputs in a row
``shared``         a variable that keeps its value between calls
``grad``           symbolic differentiation
``COp, Apply``     the parts of a fused Op
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bihm_repro.engine.backend import load
from bihm_repro.engine.choice import device_name, engine_name
from bihm_repro.engine.notices import announce
from bihm_repro.engine.step_functions import Steps

__all__ = [
    "Apply",
    "COp",
    "MethodNotDefined",
    "T",
    "blas",
    "device",
    "device_count",
    "engine",
    "floatX",
    "function",
    "grad",
    "on_jax",
    "shared",
    "step_function",
    "threads",
    "version",
]

Variable = Any
"""A symbolic tensor; neither engine's own types describe both engines."""
Updates = Sequence[tuple[Variable, Variable]]
"""The new values that a compiled function assigns to shared variables."""

engine, device = engine_name(), device_name()
_backend = load(engine, device)

Apply, COp, MethodNotDefined = _backend.Apply, _backend.COp, _backend.MethodNotDefined
T, grad, shared = _backend.T, _backend.module.grad, _backend.module.shared
blas, threads, on_jax = _backend.blas, _backend.threads, _backend.on_jax
version: str = _backend.module.__version__
floatX: str = _backend.module.config.floatX


def device_count() -> int:
    """Return the number of devices that mini-batches are divided over, on all hosts together."""
    if not on_jax:
        return 1
    from bihm_repro.engine import jax_parallel

    return jax_parallel.device_count()


def function(
    inputs: list[Variable],
    outputs: Any,
    updates: Updates | None = None,
    name: str | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """Compile; Ops may overwrite a shared variable that the same call updates.

    ``name`` says what is compiled in a notice, where compiling takes longer than a second.
    """
    if on_jax:
        from bihm_repro.engine import jax_device

        options.setdefault("mode", jax_device.mode())
    with announce(f"compiling {name or 'a function'} (about 40 s the first time)"):
        return _backend.module.function(
            inputs, outputs, updates=updates, name=name, accept_inplace=True, **options
        )


def step_function(
    x: Variable, outputs: list[Variable], updates: Updates, name: str | None = None
) -> Steps:
    """Compile a step of input ``x``, to be called with a list of inputs."""
    if not on_jax:
        return Steps(function([x], outputs, updates=updates, name=name))
    from bihm_repro.engine import jax_device

    step = function([x], outputs, updates=updates, name=name, mode=jax_device.mode(fetches=False))
    return Steps(step, jax_device.fetch)

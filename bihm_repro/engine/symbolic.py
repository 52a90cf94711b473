"""The symbolic engine's names, the same whichever engine stands behind them.

Importing this module picks the engine, sets it up and imports it; nothing else in the project
imports an engine. A model is written against these names only:

``T``           the tensor module
``function``    compiles inputs, outputs and updates
``steps``       compiles one input, outputs and updates to be called with many inputs in a row
``shared``      a variable that keeps its value between calls
``grad``        symbolic differentiation
``COp, Apply``  what a fused Op is made of
"""

from __future__ import annotations

from bihm_repro.engine.choice import device_name, engine_name

__all__ = ["Apply", "COp", "MethodNotDefined", "T", "blas", "device", "engine", "floatX",
           "function", "grad", "shared", "steps", "threads", "version"]

engine = engine_name()
device = device_name()

if engine == "theano":
    from bihm_repro.engine import theano_engine as _engine
else:
    from bihm_repro.engine import pytensor_engine as _engine

Apply, COp, MethodNotDefined = _engine.Apply, _engine.COp, _engine.MethodNotDefined
T, function, grad, shared = _engine.T, _engine.function, _engine.grad, _engine.shared
steps = _engine.steps
blas, floatX, threads, version = _engine.blas, _engine.floatX, _engine.threads, _engine.version

"""PyTensor, set up before its import: C code on the CPU, or JAX on a CPU or a GPU.

``BIHM_DEVICE=cpu`` compiles the fused Ops' C code, as theano does. ``jax-cpu`` and ``gpu`` hand
the whole graph to JAX (see ``jax_device``) and need no C++ compiler.
"""

from __future__ import annotations

import logging
import os
import warnings

from bihm_repro.engine.blas import find_blas
from bihm_repro.engine.choice import JAX_DEVICES, device_name
from bihm_repro.engine.compiler import cache_folder, require_compiler
from bihm_repro.engine.steps import InFlight, OneByOne
from bihm_repro.engine.threads import prepare_threads
from bihm_repro.errors import SetupError

__all__ = ["Apply", "COp", "MethodNotDefined", "T", "blas", "floatX", "function", "grad",
           "shared", "steps", "threads", "version"]


def _flags() -> dict[str, str]:
    """The settings that the import needs; the user's own ``PYTENSOR_FLAGS`` win over them."""
    return {
        "floatX": "float32",
        "device": "cpu",
        "openmp": "False",
        "mode": "Mode",
        "linker": "cvm" if compiler else "py",
        "cxx": compiler,
        "blas__ldflags": blas.flags if blas else "",
        "gcc__cxxflags": "-O3 -fno-math-errno -fno-trapping-math",
        "allow_gc": "False",
        "base_compiledir": str(cache_folder("pytensor")),
        "compute_test_value": "off",
    }


on_jax = device_name() in JAX_DEVICES
compiler = "" if on_jax else require_compiler()
blas = find_blas()
threads = prepare_threads()
if blas is None and not on_jax:
    warnings.warn("no BLAS library found: matrix products will be slow; install scipy from its "
                  "wheel, or libopenblas-dev", RuntimeWarning, stacklevel=2)
if on_jax:
    from bihm_repro.engine import jax_device

    jax_device.prepare(device_name(), threads)
_given = os.environ.get("PYTENSOR_FLAGS", "")
_ours = ",".join(f"{key}={value}" for key, value in _flags().items())
os.environ["PYTENSOR_FLAGS"] = f"{_ours},{_given}".rstrip(",")
# It warns of a BLAS that it could not try out by itself; ours has been tried.
logging.getLogger("pytensor.tensor.blas").setLevel(logging.ERROR)
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pytensor
        import pytensor.tensor as T
        from pytensor import grad, shared
        from pytensor.graph.basic import Apply
        from pytensor.graph.utils import MethodNotDefined
        from pytensor.link.c.op import COp
except ImportError as error:
    raise SetupError(f"PyTensor cannot be imported ({error}): pip install 'bihm-repro[pytensor]', "
                     "or make setup ENGINE=pytensor") from None
finally:
    os.environ["PYTENSOR_FLAGS"] = _given

version: str = pytensor.__version__
floatX: str = pytensor.config.floatX


def function(inputs, outputs, updates=None, **options):
    """Compile; Ops that overwrite a shared variable which the same call updates are welcome."""
    if on_jax:
        options.setdefault("mode", jax_device.mode())
    return pytensor.function(inputs, outputs, updates=updates, accept_inplace=True, **options)


def steps(x, outputs, updates) -> InFlight | OneByOne:
    """Compile a step of input ``x``, to be called with a list of inputs; see ``engine.steps``."""
    if not on_jax:
        return OneByOne(function([x], outputs, updates=updates))
    step = function([x], outputs, updates=updates, mode=jax_device.mode(fetches=False))
    return InFlight(step, jax_device.fetch)

"""theano-pymc, set up before its import so that it works, and works fast, on current machines."""

from __future__ import annotations

import logging
import os
import sys
import warnings

from bihm_repro.engine.blas import find_blas
from bihm_repro.engine.compiler import cache_folder, require_compiler
from bihm_repro.engine.steps import OneByOne
from bihm_repro.engine.threads import prepare_threads
from bihm_repro.errors import SetupError

__all__ = ["Apply", "COp", "MethodNotDefined", "T", "blas", "floatX", "function", "grad",
           "shared", "steps", "threads", "version"]


def _flags() -> dict[str, str]:
    """The settings that the import needs; the user's own ``THEANO_FLAGS`` win over them."""
    return {
        "floatX": "float32",
        "device": "cpu",
        "openmp": "False",
        "cxx": compiler,
        "blas__ldflags": blas.flags if blas else "",
        "gcc__cxxflags": "-O3 -fno-math-errno -fno-trapping-math",
        "allow_gc": "False",
        "base_compiledir": str(cache_folder("theano")),
        "compute_test_value": "off",
    }


if sys.version_info >= (3, 12):
    raise SetupError("theano-pymc ends at Python 3.11 and this is "
                     f"{sys.version_info.major}.{sys.version_info.minor}: use --engine pytensor, "
                     "or make PYTHON=python3.11")
compiler = require_compiler()
blas = find_blas()
threads = prepare_threads()
if blas is None:
    warnings.warn("no BLAS library found: matrix products will be slow; install scipy from its "
                  "wheel, or libopenblas-dev", RuntimeWarning, stacklevel=2)
_given = os.environ.get("THEANO_FLAGS", "")
_ours = ",".join(f"{key}={value}" for key, value in _flags().items())
os.environ["THEANO_FLAGS"] = f"{_ours},{_given}".rstrip(",")
# It looks for a library named lib*.so in a way that a bundled one does not meet, and says so.
logging.getLogger("theano.tensor.blas").setLevel(logging.ERROR)
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import theano
        import theano.tensor as T
        from theano import grad, shared
        from theano.graph.basic import Apply
        from theano.graph.op import COp
        from theano.graph.utils import MethodNotDefined
finally:
    os.environ["THEANO_FLAGS"] = _given
# A failed allocation is reported by the error itself; that it cannot be embellished is no news.
warnings.filterwarnings("ignore", message=".*does not allow us to add extra error message")

version: str = theano.__version__
floatX: str = theano.config.floatX


def function(inputs, outputs, updates=None, **options):
    """Compile; Ops that overwrite a shared variable which the same call updates are welcome."""
    return theano.function(inputs, outputs, updates=updates, accept_inplace=True, **options)


def steps(x, outputs, updates) -> OneByOne:
    """Compile a step of input ``x``, to be called with a list of inputs; see ``engine.steps``."""
    return OneByOne(function([x], outputs, updates=updates))

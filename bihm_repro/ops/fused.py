"""What all fused Ops share: the C kernels, how they are compiled, and how arrays reach them."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

from bihm_repro.engine.choice import JAX_DEVICES
from bihm_repro.engine.symbolic import COp, MethodNotDefined, blas, device

__all__ = ["FusedOp", "BLOCK_FLOATS", "GRADIENT_ROWS", "SPARSE_ROWS"]

# Logits made at a time by one thread: 1 MiB, which stays in cache while it is consumed.
BLOCK_FLOATS = 262144
# Rows scaled at a time for a weight gradient: few, long products, and a bound on their memory.
GRADIENT_ROWS = 2048
# Rows read at a time by the sums of a sparse gradient: a panel of them stays in a core's cache.
SPARSE_ROWS = 1024

# Each builds on those before it.
_KERNELS = "".join((Path(__file__).parent / name).read_text(encoding="utf-8")
                   for name in ("rows.h", "products.h", "layers.h"))
_ARRAYS = """
namespace bihm {
// A new reference to `array`, copied only where it is not laid out row by row.
static inline PyArrayObject* row_major(PyArrayObject* array) {
    return (PyArrayObject*)PyArray_GETCONTIGUOUS(array);
}
static inline float* floats(PyArrayObject* array) { return (float*)PyArray_DATA(array); }
static inline int64_t whole(PyArrayObject* array) { return *(int64_t*)PyArray_DATA(array); }
// Keeps the output of the last call where it fits, so that no update allocates memory anew.
static inline bool prepare(PyArrayObject** output, int dimensions, npy_intp rows,
                           npy_intp columns) {
    npy_intp shape[2] = {rows, columns};
    if (*output && PyArray_NDIM(*output) == dimensions && PyArray_IS_C_CONTIGUOUS(*output) &&
        PyArray_DIMS(*output)[0] == rows &&
        (dimensions == 1 || PyArray_DIMS(*output)[1] == columns)) return true;
    Py_XDECREF(*output);
    *output = (PyArrayObject*)PyArray_SimpleNew(dimensions, shape, NPY_FLOAT32);
    return *output != NULL;
}
// Raises ValueError with what went wrong, or keeps the MemoryError of a failed allocation.
static inline void complain(const char* what) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, what);
}
}
"""


class FusedOp(COp):
    """Base of the fused Ops: float32 in C; other types run the numpy reference in ``perform``.

    ``jax_form(*inputs)`` gives the outputs on JAX arrays, where the device is one of JAX's;
    ``counts`` are the inputs, by position, that JAX has to know when it compiles.
    """

    __props__: tuple = ()
    counts: tuple[int, ...] = ()

    def c_headers(self, **kwargs) -> list[str]:
        """None besides what the kernels include themselves."""
        return []

    def c_support_code(self, **kwargs) -> str:
        """The kernels and the few functions that get arrays in and out."""
        sizes = (f"#define BIHM_BLOCK_FLOATS {BLOCK_FLOATS}\n"
                 f"#define BIHM_GRADIENT_ROWS {GRADIENT_ROWS}\n"
                 f"#define BIHM_SPARSE_ROWS {SPARSE_ROWS}\n")
        return sizes + _KERNELS + _ARRAYS

    def c_compile_args(self, **kwargs) -> list[str]:
        """Vectors as wide as the machine has, and OpenMP where the compiler knows it."""
        arguments = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]
        if sys.platform.startswith("linux"):
            arguments.append("-fopenmp")
        if blas is not None and blas.folder is not None:
            arguments.append(f"-Wl,-rpath,{blas.folder}")
        return arguments + (blas.defines if blas is not None else [])

    def c_libraries(self, **kwargs) -> list[str]:
        """The BLAS that the engine itself uses."""
        if blas is None:
            raise MethodNotDefined("c_libraries: no BLAS to link with")
        return [f":{blas.library}" if blas.folder else blas.library]

    def c_lib_dirs(self, **kwargs) -> list[str]:
        """Where that BLAS lies."""
        return [blas.folder] if blas is not None and blas.folder else []

    def c_code_cache_version(self) -> tuple[int, ...]:
        """Compiled code is kept until a kernel or the way it is called changes."""
        return (zlib.crc32(self.c_support_code().encode()), 1)

    def require_float32(self, node) -> None:
        """The C code is for float32; anything else goes to ``perform``."""
        if any(v.type.dtype.startswith("float") and v.type.dtype != "float32"
               for v in list(node.inputs) + list(node.outputs)) or blas is None:
            raise MethodNotDefined("c_code: only float32 is fused")


if device in JAX_DEVICES:
    from bihm_repro.engine import jax_device

    jax_device.register(FusedOp)

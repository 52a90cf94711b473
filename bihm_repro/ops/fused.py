"""The base class of the fused Ops: the C kernels, their compilation, and access to arrays."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

from bihm_repro.engine.symbolic import COp, MethodNotDefined, blas, on_jax

__all__ = ["FusedOp", "BLOCK_FLOATS", "GRADIENT_ROWS"]

# Logits computed at a time by one thread: 1 MiB, which stays in cache until it is read.
BLOCK_FLOATS = 262144
# Rows scaled at a time for a weight gradient: few large products, and a bound on their memory.
GRADIENT_ROWS = 2048

# Each builds on those before it.
_KERNELS = "".join(
    (Path(__file__).parent / name).read_text(encoding="utf-8")
    for name in ("rows.h", "products.h", "layers.h")
)
_ARRAYS = """
namespace bihm {
// A new reference to `array`, copied only where it is not laid out row by row.
static inline PyArrayObject* row_major(PyArrayObject* array) {
    return (PyArrayObject*)PyArray_GETCONTIGUOUS(array);
}
static inline float* floats(PyArrayObject* array) { return (float*)PyArray_DATA(array); }
static inline int64_t whole(PyArrayObject* array) { return *(int64_t*)PyArray_DATA(array); }
// Reuses the output of the last call where its shape fits, so that updates allocate no memory.
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

    ``jax_form(*inputs)`` computes the outputs from JAX arrays; ``counts`` are the positions of the
    inputs that are static when JAX compiles.
    """

    __props__: tuple = ()
    counts: tuple[int, ...] = ()

    def c_headers(self, **kwargs) -> list[str]:
        """Return none: the kernels have their own include lines."""
        return []

    def c_support_code(self, **kwargs) -> str:
        """Return the kernels and the functions that access arrays."""
        sizes = (
            f"#define BIHM_BLOCK_FLOATS {BLOCK_FLOATS}\n"
            f"#define BIHM_GRADIENT_ROWS {GRADIENT_ROWS}\n"
        )
        return sizes + _KERNELS + _ARRAYS

    def c_compile_args(self, **kwargs) -> list[str]:
        """Return flags for the machine's vector instructions, OpenMP on Linux, and the BLAS."""
        arguments = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]
        if sys.platform.startswith("linux"):
            arguments.append("-fopenmp")
        if blas is not None and blas.folder is not None:
            arguments.append(f"-Wl,-rpath,{blas.folder}")
        return arguments + (blas.defines if blas is not None else [])

    def c_libraries(self, **kwargs) -> list[str]:
        """Return the BLAS that the engine itself uses."""
        if blas is None:
            raise MethodNotDefined("c_libraries: no BLAS to link with")
        return [f":{blas.library}" if blas.folder else blas.library]

    def c_lib_dirs(self, **kwargs) -> list[str]:
        """Return the folder of that BLAS."""
        return [blas.folder] if blas is not None and blas.folder else []

    def c_code_cache_version(self) -> tuple[int, ...]:
        """Return a version that changes with the kernels, so that the cache is never stale."""
        return (zlib.crc32(self.c_support_code().encode()), 1)

    def require_float32(self, node) -> None:
        """Leave other types than float32, which the C code is for, to ``perform``."""
        if (
            any(
                v.type.dtype.startswith("float") and v.type.dtype != "float32"
                for v in list(node.inputs) + list(node.outputs)
            )
            or blas is None
        ):
            raise MethodNotDefined("c_code: only float32 is fused")


if on_jax:
    from bihm_repro.engine import jax_device

    jax_device.register(FusedOp)

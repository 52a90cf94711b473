"""The base class of the fused Ops: inputs and outputs, the C kernels and their compilation."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from bihm_repro.engine.symbolic import Apply, COp, MethodNotDefined, T, blas, on_jax

__all__ = ["FusedOp", "SAMPLING"]

# Logits computed at a time by one thread: 1 MiB, which stays in cache until it is read.
BLOCK_FLOATS = 262144
# Rows scaled at a time for a weight gradient: few large products, and a bound on their memory.
GRADIENT_ROWS = 2048

SAMPLING = ("repeats", "seed", "counter")
"""The integers of an Op that draws ``repeats`` rows for each row of its first array."""

_ARRAYS = """
#define DIM(array, axis) PyArray_DIMS(array##_array)[axis]
namespace bihm {
// A new reference to `array`, copied only where it is not laid out row by row.
static inline PyArrayObject* row_major(PyArrayObject* array) {
    return (PyArrayObject*)PyArray_GETCONTIGUOUS(array);
}
static inline float* floats(PyArrayObject* array) {
    return array ? (float*)PyArray_DATA(array) : nullptr;
}
static inline int64_t integer(PyArrayObject* array) { return *(int64_t*)PyArray_DATA(array); }
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
    """Base of the fused Ops: float32 in C; other types run ``reference``, in numpy.

    What a subclass must give
    -------------------------
    arrays, integers : the names of its inputs, in this order; the last arrays may be left out
    outputs : name to shape in C; an output with the name of a property exists where that is true
    like : the array whose type the outputs have, by its position
    kernels : the header of its kernels, besides those that all Ops have
    sizes, fits, call : C code: definitions of sizes, a condition on them, and an expression that
        calls the kernel and is true where that succeeded. Arrays and outputs are pointers, null
        where they are left out; ``DIM(x, 0)`` is a dimension of the array x
    reference : the outputs in numpy, a tuple, from arrays
    jax_name : the function of ``jax_forms`` that does the same with JAX arrays
    counts : the positions of the inputs that are static when JAX compiles
    """

    __props__: tuple[str, ...] = ()
    arrays: tuple[str, ...]
    integers: tuple[str, ...] = ()
    outputs: dict[str, tuple[str, ...]] = {}
    like = 0
    kernels = sizes = call = ""
    fits = "true"
    jax_name: str
    counts: tuple[int, ...] = ()

    def __init__(self, *values: Any) -> None:
        for name, value in zip(self.__props__, values):
            setattr(self, name, value)

    def present(self) -> dict[str, tuple[str, ...]]:
        """Return the outputs that exist."""
        absent = {name for name in self.__props__ if not getattr(self, name)}
        return {name: shape for name, shape in self.outputs.items() if name not in absent}

    def make_node(self, *inputs) -> Apply:
        last = len(inputs) - len(self.integers)
        arrays = [T.as_tensor_variable(v) for v in inputs[:last]]
        integers = [T.cast(T.as_tensor_variable(v), "int64") for v in inputs[last:]]
        kinds = [T.vector if len(shape) == 1 else T.matrix for shape in self.present().values()]
        return Apply(
            self, arrays + integers, [kind(dtype=arrays[self.like].dtype) for kind in kinds]
        )

    def perform(self, node, inputs, storage) -> None:
        for cell, value, output in zip(storage, self.reference(*inputs), node.outputs):
            cell[0] = np.asarray(value, output.dtype)

    def jax_form(self, *inputs) -> Any:
        from bihm_repro.ops import jax_forms

        options = {name: getattr(self, name) for name in self.__props__}
        found = getattr(jax_forms, self.jax_name)(*inputs, **options)
        return found if len(found) > 1 else found[0]

    # -- C code

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        self.require_float32(node)
        given = len(inputs) - len(self.integers)
        arrays = dict.fromkeys(self.arrays, "nullptr")
        arrays.update(zip(arrays, (f"bihm::row_major({v})" for v in inputs[:given])))
        present = dict(zip(self.present(), outputs))
        shapes = {n: f"{len(s)}, {', '.join([*s, '0'][:2])}" for n, s in self.outputs.items()}
        conditions = [f"({self.fits})"]
        conditions += [f"bihm::prepare(&{v}, {shapes[n]})" for n, v in present.items()]
        borrow = [f"PyArrayObject* {n}_array = {v};" for n, v in arrays.items()]
        borrow += [
            f"const npy_intp {n} = bihm::integer({v});"
            for n, v in zip(self.integers, inputs[given:])
        ]
        pointers = [f"const float* {n} = bihm::floats({n}_array);" for n in arrays]
        out = [f"float* {n} = bihm::floats({present.get(n, 'nullptr')});" for n in self.outputs]
        return f"""
        {{
        {" ".join(borrow)}
        bool ok = {" && ".join(f"{n}_array" for n in self.arrays[:given])};
        if (ok) {{
            {" ".join(pointers)}
            {self.sizes}
            ok = {" && ".join(conditions)};
            if (ok) {{
                {" ".join(out)}
                Py_BEGIN_ALLOW_THREADS
                ok = ({self.call});
                Py_END_ALLOW_THREADS
            }}
        }}
        {" ".join(f"Py_XDECREF({n}_array);" for n in arrays)}
        if (!ok) {{
            bihm::complain("{type(self).__name__}: shapes or counts do not fit, or no memory");
            {sub["fail"]}
        }}
        }}
        """

    def require_float32(self, node) -> None:
        """Leave other types than float32, which the C code is for, to ``perform``."""
        dtypes = [v.type.dtype for v in [*node.inputs, *node.outputs]]
        if blas is None or any(t.startswith("float") and t != "float32" for t in dtypes):
            raise MethodNotDefined("c_code: only float32 is fused")

    def c_headers(self, **kwargs) -> list[str]:
        return []  # the kernels have their own include lines

    def c_support_code(self, **kwargs) -> str:
        sizes = (
            f"#define BIHM_BLOCK_FLOATS {BLOCK_FLOATS}\n"
            f"#define BIHM_GRADIENT_ROWS {GRADIENT_ROWS}\n"
        )
        # Each builds on those before it.
        names = ["rows.h", "threads.h", "tables.h", "changes.h", "products.h", "layers.h"]
        names += filter(None, [self.kernels])
        folder = Path(__file__).parent
        headers = [(folder / name).read_text(encoding="utf-8") for name in names]
        return "".join([sizes, *headers, _ARRAYS])

    def c_compile_args(self, **kwargs) -> list[str]:
        arguments = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]
        if sys.platform.startswith("linux"):
            arguments.append("-fopenmp")
        if blas is not None and blas.folder is not None:
            arguments.append(f"-Wl,-rpath,{blas.folder}")
        return arguments + (blas.defines if blas is not None else [])

    def c_libraries(self, **kwargs) -> list[str]:
        if blas is None:
            raise MethodNotDefined("c_libraries: no BLAS to link with")
        return [f":{blas.library}" if blas.folder else blas.library]

    def c_lib_dirs(self, **kwargs) -> list[str]:
        return [blas.folder] if blas is not None and blas.folder else []

    def c_code_cache_version(self) -> tuple[int, ...]:
        # It changes with the code, so that the cache is never stale.
        code = [self.c_support_code(), self.sizes, self.fits, self.call, str(self.outputs)]
        return (zlib.crc32("".join(code).encode()), 2)


if on_jax:
    from bihm_repro.engine import jax_device

    jax_device.register(FusedOp)

"""JAX as the compiler of PyTensor's graphs: one XLA program per function, on a CPU or a GPU.

Shared variables are JAX arrays on the device. The arrays that a call's updates replace are
donated, so that parameters and the step rule's state are updated in place, without transfers.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from bihm_repro.engine import jax_parallel
from bihm_repro.engine.compiler import prepare_cache
from bihm_repro.engine.notices import announce
from bihm_repro.engine.parallel import several_hosts
from bihm_repro.errors import SetupError

__all__ = ["prepare", "mode", "fetch", "register", "describe"]


def prepare(device: str, threads: int) -> None:
    """Choose JAX's platform and check that it is available; to be called before its first use."""
    if device == "jax-cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    # The only setting of the number of threads that XLA's pool on the CPU reads.
    os.environ.setdefault("NPROC", str(threads))
    if several_hosts():  # Failures of other hosts are reported by jax_parallel, in one line.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import jax
    except ImportError as error:
        raise SetupError(
            f"device {device} needs JAX ({error}): pip install "
            "'bihm-repro[pytensor]' (GPUs: 'jax[cuda12]')"
        ) from None
    jax_parallel.use_devices(device)
    if device == "gpu" and not _has_gpu(jax):
        raise SetupError(
            "device gpu: JAX finds no GPU here; install its CUDA build (pip install "
            "'jax[cuda12]') on a machine with an NVIDIA driver, or use --device cpu"
        )
    # Products in full float32, as on the CPU; a GPU would round weights to ten bits.
    if not os.environ.get("JAX_DEFAULT_MATMUL_PRECISION"):
        jax.config.update("jax_default_matmul_precision", "float32")
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        jax.config.update("jax_compilation_cache_dir", str(prepare_cache("jax")))


def _has_gpu(jax) -> bool:
    try:
        return len(jax.devices("gpu")) > 0
    except RuntimeError:
        return False


def describe() -> str:
    """Return JAX's name of the device that it computes on."""
    import jax

    device, count = jax.devices()[0], jax_parallel.device_count()
    return f"JAX {jax.__version__} on {f'{count} x ' if count > 1 else ''}{device.device_kind}"


def register(op_class: type) -> type:
    """Let JAX compile an Op, and all derived from it, by its method ``jax_form``."""
    from pytensor.link.jax.dispatch import jax_funcify

    jax_funcify.register(op_class)(lambda op, **context: op.jax_form)
    return op_class


def fetch(values: list) -> list:
    """Wait for arrays on the device, or nested lists of them, and return them as numpy arrays."""
    import jax

    return jax.device_get(values)


@functools.cache
def mode(fetches: bool = True):
    """Return the compilation mode: PyTensor's rewrites for JAX, and :class:`DeviceFunction`.

    Without ``fetches`` a call does not wait for its outputs, which stay on the device.
    """
    from pytensor.compile.mode import JAX, Mode
    from pytensor.link.jax.linker import JAXLinker

    _adapt()

    class DeviceLinker(JAXLinker):
        """JAX's linker, with device functions."""

        def jit_compile(self, fn):
            return DeviceFunction(self.fgraph, fn, fetches)

    return Mode(DeviceLinker(), JAX.provided_optimizer)


class DeviceFunction:
    """A function compiled by JAX: updated variables are donated, and counts are static.

    With several devices its inputs are divided over them (see ``jax_parallel``).
    """

    def __init__(self, fgraph: Any, fn: Any, fetches: bool) -> None:
        """Compile ``fn``, the JAX form of ``fgraph``; see :func:`mode` for ``fetches``."""
        import jax
        from pytensor.compile.sharedvalue import SharedVariable

        updated = fgraph.update_mapping or {}
        self._mesh = jax_parallel.mesh()
        shardings = {"out_shardings": jax_parallel.replicated(self._mesh)} if self._mesh else {}
        self._counts = sorted(_counts(fgraph))
        self._divisible = [not isinstance(v, SharedVariable) for v in fgraph.inputs]
        self._returned = [i for i in range(len(fgraph.outputs)) if i not in updated]
        self._fetches = fetches
        self._compiled_for: set[tuple[int, ...]] = set()
        self._compiled = jax.jit(
            fn,
            static_argnums=tuple(self._counts),
            donate_argnums=tuple(sorted(set(updated.values()))),
            **shardings,
        )

    def __call__(self, *arguments: Any) -> list[Any]:
        """Return all outputs, the new values of updated variables among them."""
        outputs = self._run([self._prepared(i, value) for i, value in enumerate(arguments)])
        if self._fetches:
            for i, value in zip(self._returned, fetch([outputs[i] for i in self._returned])):
                outputs[i] = value
        return outputs

    def _prepared(self, i: int, value: Any) -> Any:
        if i in self._counts:
            return int(value)
        if self._mesh is None:
            return value
        return jax_parallel.place(value, self._mesh, self._divisible[i])

    def _run(self, arguments: list[Any]) -> list[Any]:
        static = tuple(arguments[i] for i in self._counts)
        if static in self._compiled_for:
            return list(self._compiled(*arguments))
        self._compiled_for.add(static)
        with announce("compiling for JAX (about 10 s the first time)"):
            return list(self._compiled(*arguments))


@functools.cache
def _adapt() -> None:
    """Configure JAX, and PyTensor's conversion to JAX, for our graphs."""
    import jax

    # PyTensor disables 64-bit types with floatX = float32; the counter of random numbers and
    # Adam's bias correction have 64 bits, and everything else its type from the graph.
    jax.config.update("jax_enable_x64", True)
    _keep_types_of_sums()
    _keep_counts_known(jax)


def _counts(fgraph) -> set[int]:
    """Return the positions of the inputs that determine an array's shape: static for JAX.

    JAX then compiles a function once per value. An Op lists which of its inputs are counts in its
    attribute ``counts``.
    """
    from pytensor.link.jax.dispatch.shape import JAXShapeTuple

    waiting = []
    for node in fgraph.apply_nodes:
        if isinstance(node.op, JAXShapeTuple):
            waiting += node.inputs
        waiting += [node.inputs[i] for i in getattr(node.op, "counts", ())]
    found = set()
    while waiting:
        variable = waiting.pop()
        if variable in fgraph.inputs:
            found.add(fgraph.inputs.index(variable))
        elif variable.owner is not None and _is_integer_arithmetic(variable.owner):
            waiting += variable.owner.inputs
    return found


def _is_integer_arithmetic(node) -> bool:
    return all(
        v.type.ndim == 0 and v.type.dtype.startswith("int") for v in (*node.inputs, *node.outputs)
    )


def _keep_counts_known(jax) -> None:
    """Evaluate arithmetic on static integers at compile time."""
    from pytensor.link.jax.dispatch import jax_funcify
    from pytensor.tensor.elemwise import Elemwise

    given = jax_funcify.dispatch(Elemwise)

    def known(op, node, **context):
        compute = given(op, node=node, **context)
        if not _is_integer_arithmetic(node):
            return compute

        def compute_now(*inputs):
            with jax.ensure_compile_time_eval():
                return compute(*inputs)

        return compute_now

    jax_funcify.register(Elemwise)(known)


def _keep_types_of_sums() -> None:
    """Cast a reduction, which JAX returns in the accumulator's type, to the graph's type."""
    from pytensor.link.jax.dispatch import jax_funcify
    from pytensor.tensor.elemwise import CAReduce

    given = jax_funcify.dispatch(CAReduce)

    def typed(op, node, **context):
        reduce, dtype = given(op, node=node, **context), node.outputs[0].dtype
        return lambda x: reduce(x).astype(dtype)

    jax_funcify.register(CAReduce)(typed)

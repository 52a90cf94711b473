"""JAX as the compiler of PyTensor's graphs: one XLA program a function, on a CPU or a GPU.

Shared variables live on the device as JAX arrays. A call's updates stay there, and the arrays
that they replace are donated, so that parameters and the step rule's state are overwritten where
they are and never travel.
"""

from __future__ import annotations

import functools
import os

from bihm_repro.engine.compiler import cache_folder
from bihm_repro.errors import SetupError

__all__ = ["prepare", "mode", "fetch", "register", "describe"]


def prepare(device: str, threads: int) -> None:
    """Choose JAX's platform and check that it is there; has to come before its first use."""
    if device == "jax-cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    # The only thread count that XLA's pool on the CPU listens to.
    os.environ.setdefault("NPROC", str(threads))
    try:
        import jax
    except ImportError as error:
        raise SetupError(f"device {device} needs JAX ({error}): pip install "
                         "'bihm-repro[pytensor]' (GPUs: 'jax[cuda12]')") from None
    if device == "gpu" and not _has_gpu(jax):
        raise SetupError("device gpu: JAX finds no GPU here; install its CUDA build (pip install "
                         "'jax[cuda12]') on a machine with an NVIDIA driver, or use --device cpu")
    # Whole float32 products, as on the CPU; a GPU would round weights to ten bits.
    if not os.environ.get("JAX_DEFAULT_MATMUL_PRECISION"):
        jax.config.update("jax_default_matmul_precision", "float32")
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        jax.config.update("jax_compilation_cache_dir", str(cache_folder("jax")))


def _has_gpu(jax) -> bool:
    try:
        return len(jax.devices("gpu")) > 0
    except RuntimeError:
        return False


def describe() -> str:
    """The device that JAX really computes on, in its own words."""
    import jax

    device = jax.devices()[0]
    return f"JAX {jax.__version__} on {device.device_kind}"


def register(op_class: type) -> type:
    """Let JAX compile an Op, and all derived from it, by its method ``jax_form``."""
    from pytensor.link.jax.dispatch import jax_funcify

    jax_funcify.register(op_class)(lambda op, **context: op.jax_form)
    return op_class


def fetch(values: list) -> list:
    """Wait for arrays on the device and bring them here, lists of them too."""
    import jax

    return jax.device_get(values)


@functools.cache
def mode(fetches: bool = True):
    """The compilation mode: PyTensor's rewrites for JAX, and the linker below.

    Without ``fetches`` a call's outputs are left on the device, and the call does not wait for
    them.
    """
    import jax
    from pytensor.compile.mode import JAX, Mode
    from pytensor.link.jax.linker import JAXLinker

    _adapt()

    class DeviceLinker(JAXLinker):
        """JAX's linker; updated shared variables are donated, counts are known to the compiler."""

        def jit_compile(self, fn):
            counts = _counts(self.fgraph)
            updated = self.fgraph.update_mapping or {}
            returned = [i for i in range(len(self.fgraph.outputs)) if i not in updated]
            compiled = jax.jit(fn, static_argnums=tuple(sorted(counts)),
                               donate_argnums=tuple(sorted(set(updated.values()))))

            def call(*arguments):
                outputs = list(compiled(*(int(value) if i in counts else value
                                          for i, value in enumerate(arguments))))
                if fetches:
                    for i, value in zip(returned, fetch([outputs[i] for i in returned])):
                        outputs[i] = value
                return outputs

            return call

    return Mode(DeviceLinker(), JAX.provided_optimizer)


@functools.cache
def _adapt() -> None:
    """Set JAX and PyTensor's way to it up for our graphs."""
    import jax

    # PyTensor turns 64-bit types off with floatX = float32; the draw counter and Adam's bias
    # correction are 64 bits wide, and all else has its type from the graph.
    jax.config.update("jax_enable_x64", True)
    _keep_types_of_sums()
    _keep_counts_known(jax)


def _counts(fgraph) -> set[int]:
    """The inputs, by position, that an array's shape is made from: JAX has to know their values.

    A function is then compiled once for each value, by JAX itself. An Op says which of its inputs
    are counts by its attribute ``counts``.
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
        elif variable.owner is not None and _is_whole_arithmetic(variable.owner):
            waiting += variable.owner.inputs
    return found


def _is_whole_arithmetic(node) -> bool:
    return all(v.type.ndim == 0 and v.type.dtype.startswith("int")
               for v in (*node.inputs, *node.outputs))


def _keep_counts_known(jax) -> None:
    """Arithmetic on whole numbers that are known while compiling is done while compiling."""
    from pytensor.link.jax.dispatch import jax_funcify
    from pytensor.tensor.elemwise import Elemwise

    given = jax_funcify.dispatch(Elemwise)

    def known(op, node, **context):
        compute = given(op, node=node, **context)
        if not _is_whole_arithmetic(node):
            return compute

        def compute_now(*inputs):
            with jax.ensure_compile_time_eval():
                return compute(*inputs)

        return compute_now

    jax_funcify.register(Elemwise)(known)


def _keep_types_of_sums() -> None:
    """A sum comes out of JAX in the type it was added up in: make it the graph's type."""
    from pytensor.link.jax.dispatch import jax_funcify
    from pytensor.tensor.elemwise import CAReduce

    given = jax_funcify.dispatch(CAReduce)

    def typed(op, node, **context):
        reduce, kind = given(op, node=node, **context), node.outputs[0].dtype
        return lambda x: reduce(x).astype(kind)

    jax_funcify.register(CAReduce)(typed)

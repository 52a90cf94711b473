"""JAX as the compiler of PyTensor's graphs: one XLA program a function, on a CPU or a GPU.

Shared variables live on the device as JAX arrays. A call's updates stay there, and the arrays
that they replace are donated, so that parameters and the step rule's state are overwritten where
they are and never travel.
"""

from __future__ import annotations

import functools
import os
import warnings

from bihm_repro.engine.compiler import cache_folder
from bihm_repro.errors import SetupError

__all__ = ["prepare", "mode", "register", "describe"]


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
    return f"{device.platform}: {device.device_kind}"


def register(op_class: type) -> type:
    """Let JAX compile an Op, and all derived from it, by its method ``jax_form``."""
    from pytensor.link.jax.dispatch import jax_funcify

    jax_funcify.register(op_class)(lambda op, **context: op.jax_form)
    return op_class


@functools.lru_cache(maxsize=None)
def mode():
    """The compilation mode: PyTensor's rewrites for JAX, and the linker below."""
    import jax
    from pytensor.compile.mode import JAX, Mode
    from pytensor.link.jax.linker import JAXLinker

    # PyTensor turns 64-bit types off with floatX = float32; the draw counter and Adam's bias
    # correction are 64 bits wide, and all else has its type from the graph.
    jax.config.update("jax_enable_x64", True)
    _keep_types_of_sums()

    class DeviceLinker(JAXLinker):
        """JAX's linker, with the updated shared variables donated to the call."""

        def jit_compile(self, fn):
            updated = sorted(set((self.fgraph.update_mapping or {}).values()))
            return _donating(jax.jit(fn, donate_argnums=tuple(updated)), jax)

    return Mode(DeviceLinker(), JAX.provided_optimizer)


def _keep_types_of_sums() -> None:
    """Sums add up in float64, as in C, and have to give back the type that the graph says."""
    from pytensor.link.jax.dispatch import jax_funcify
    from pytensor.tensor.elemwise import CAReduce

    given = jax_funcify.dispatch(CAReduce)

    def typed(op, node, **context):
        reduce, kind = given(op, node=node, **context), node.outputs[0].dtype
        return lambda x: reduce(x).astype(kind)

    jax_funcify.register(CAReduce)(typed)


def _donating(compiled, jax):
    """Call ``compiled`` with every argument as an array of the device."""
    def call(*arguments):
        with warnings.catch_warnings():
            # A donated array that no output can take the place of: harmless.
            warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
            return compiled(*arguments)

    return call

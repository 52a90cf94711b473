"""Data parallelism with JAX: mini-batches divided over devices, everything else replicated.

Each input matrix of a compiled function is divided by rows over the devices of a mesh; shared
variables (parameters, the step rule's state, counters) are replicated, and so are the outputs.
XLA then adds the gradients up over the devices before the step rule. Random numbers are functions
of row and column, so the samples do not depend on the number of devices. A matrix whose rows do
not divide by the number of devices (the last mini-batch of an epoch) is replicated.

On several hosts every process runs the same program on its own part of a mesh over all hosts;
host 0 writes the run folder and decides where clocks differ.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import sys
import threading
from typing import Any, NoReturn

import numpy as np

from bihm_repro.engine import heartbeat
from bihm_repro.engine.notices import announce
from bihm_repro.engine.parallel import Parallel, requested
from bihm_repro.errors import InputError, SetupError

__all__ = [
    "connect",
    "device_count",
    "end",
    "exchange",
    "leave",
    "lost",
    "mesh",
    "place",
    "replicated",
    "share",
    "share_arrays",
    "use_devices",
]

ROWS = "rows"
# Bytes of a message between hosts that is sent at once.
PACKET = 512
# Peers are watched by our own heartbeat; JAX's would abort the process with a stack trace.
_JAX_TIMEOUT = 7 * 24 * 3600

_reporting = threading.Lock()
_heartbeat: heartbeat.Heartbeat | None = None
_left = False


def use_devices(device: str) -> None:
    """Request this host's number of devices from JAX, before it is first used."""
    import jax

    parallel = requested()
    if parallel.devices and device == "jax-cpu":
        jax.config.update("jax_num_cpu_devices", parallel.devices)
    if parallel.hosts > 1:
        connect(parallel)
    if parallel.devices and parallel.devices > len(jax.local_devices()):
        raise InputError(
            f"--devices {parallel.devices}: JAX finds {len(jax.local_devices())} on this host"
        )


def connect(parallel: Parallel) -> None:
    """Join the other hosts; each then knows the devices of all."""
    import jax

    global _heartbeat
    _heartbeat = heartbeat.Heartbeat(lambda host: lost(f"host {host}"), _finished)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)
    if not parallel.coordinator:  # JAX asks the launcher
        jax.distributed.initialize(heartbeat_timeout_seconds=_JAX_TIMEOUT)
        port = share(_free_port())
        _meet(_heartbeat, parallel, share(socket.gethostname()), port)
        return
    host, _, port = parallel.coordinator.rpartition(":")
    jax_port = _meet(_heartbeat, parallel, host.strip("[]"), int(port))
    jax.distributed.initialize(
        f"{host}:{jax_port}",
        parallel.hosts,
        parallel.host_id,
        cluster_detection_method="deactivate",
        heartbeat_timeout_seconds=_JAX_TIMEOUT,
    )


def _meet(watched: heartbeat.Heartbeat, parallel: Parallel, host: str, port: int) -> int:
    """Connect host 0 at ``host``:``port`` with all others; return the port for JAX."""
    timeout = float(os.environ.get("BIHM_HOSTS_TIMEOUT") or 300)
    where = f"{host}:{port}"
    try:
        with announce(f"waiting for {parallel.hosts} hosts at {where}"):
            if parallel.host_id:
                return watched.connect((host, port), parallel.host_id, timeout)
            number = _free_port()
            watched.accept(socket.create_server((host, port)), parallel.hosts, number, timeout)
            return number
    except TimeoutError:
        raise SetupError(
            f"not all of {parallel.hosts} hosts met at {where} within {timeout:g} s: "
            "start the same command on each, with its own --host-id"
        ) from None
    except OSError as error:
        raise SetupError(
            f"host 0 cannot listen at {where} ({error.strerror or error}): give its "
            "own address and a free port"
        ) from None


def _free_port() -> int:
    with socket.create_server(("", 0)) as probe:
        return probe.getsockname()[1]


def end(status: int) -> NoReturn:
    """End this process, from any thread; Python's own exit would wait for hosts that are gone.

    Host 0 ends last: JAX aborts the others, with lines of its own, when its service is gone.
    """
    if status == 0:
        leave()
    if _heartbeat is not None and requested().host_id == 0:
        # The others end by themselves where they have failed alike.
        if not _heartbeat.wait(10.0 if status == 0 else 3.0) and status:
            _heartbeat.abandon()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def lost(name: str) -> NoReturn:
    """Report that a host is gone, once, and end."""
    _reporting.acquire()  # Never released: a second thread that finds out waits for the end.
    print(
        f"bihm: error: {name} is gone; the run folder is saved up to its last checkpoint: start "
        "the same command on every host again to resume, with any number of hosts and devices",
        file=sys.stderr,
    )
    if _heartbeat is not None and requested().host_id == 0:
        _heartbeat.abandon()
    end(2)


def _finished(host: int) -> None:
    """Follow host 0, which has left: there is nothing more to train."""
    if host == 0:
        end(0)


def leave() -> None:
    """Disconnect from the other hosts; what is compiled later uses this host's devices only."""
    global _left
    if _heartbeat is not None and not _left:
        _left = True
        _heartbeat.leave()
        mesh.cache_clear()


@functools.cache
def mesh() -> Any:
    """Return the mesh of all devices in use, or None where there is only one."""
    import jax

    limit = requested().devices
    everywhere = jax.local_devices() if _left else jax.devices()
    by_host: dict[int, list[Any]] = {}
    for device in everywhere:
        by_host.setdefault(device.process_index, []).append(device)
    devices = [device for _, found in sorted(by_host.items()) for device in found[:limit]]
    return jax.sharding.Mesh(np.array(devices), (ROWS,)) if len(devices) > 1 else None


def device_count() -> int:
    """Return the number of devices in use, on all hosts together."""
    return 1 if mesh() is None else mesh().size


def replicated(over: Any) -> Any:
    """Return the sharding of what every device of the mesh ``over`` holds a copy of."""
    from jax.sharding import NamedSharding, PartitionSpec

    return NamedSharding(over, PartitionSpec())


def place(value: Any, over: Any, by_rows: bool) -> Any:
    """Return ``value`` on the mesh ``over``: divided by rows where it can be, else replicated."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    divided = by_rows and np.ndim(value) == 2 and np.shape(value)[0] % over.size == 0
    sharding = NamedSharding(over, PartitionSpec(ROWS)) if divided else replicated(over)
    if isinstance(value, jax.Array) and value.sharding == sharding:
        return value
    host_value = np.asarray(value)
    return jax.make_array_from_callback(host_value.shape, sharding, lambda index: host_value[index])


def exchange(message: Any) -> list[Any]:
    """Return the JSON value that each host gave, by host, on every host."""
    data = np.frombuffer(json.dumps(message).encode(), np.uint8)
    packets = _gather(_packet(data, PACKET))
    lengths = [int.from_bytes(packet[:4].tobytes(), "big") for packet in packets]
    if max(lengths) > PACKET - 4:
        packets = _gather(_packet(data, max(lengths) + 4))
    return [json.loads(packet[4 : 4 + n].tobytes()) for packet, n in zip(packets, lengths)]


def _packet(data: np.ndarray, size: int) -> np.ndarray:
    """Return the length of ``data`` and what fits of it in ``size`` bytes."""
    packet = np.zeros(size, np.uint8)
    packet[:4] = np.frombuffer(len(data).to_bytes(4, "big"), np.uint8)
    packet[4 : 4 + len(data)] = data[: size - 4]
    return packet


def _gather(packet: np.ndarray) -> np.ndarray:
    from jax.experimental.multihost_utils import process_allgather

    return process_allgather(packet).reshape(-1, len(packet))


def share(message: Any) -> Any:
    """Return host 0's JSON value on every host."""
    return exchange(message)[0]


def share_arrays(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return host 0's arrays on every host, to the last bit."""
    from jax.experimental.multihost_utils import broadcast_one_to_all

    kinds = {name: [list(value.shape), str(value.dtype)] for name, value in arrays.items()}
    shared = {}
    for name, (shape, dtype) in share(kinds).items():
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        own = arrays[name] if requested().host_id == 0 else np.empty(0)
        data = np.zeros(size, np.uint8)
        data[:] = np.frombuffer(own.tobytes(), np.uint8) if own.size else 0
        received = np.asarray(broadcast_one_to_all(data))
        shared[name] = np.frombuffer(received.tobytes(), dtype).reshape(shape).copy()
    return shared

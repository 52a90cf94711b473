"""Several devices and several hosts: what is requested, and whether the engine can do it.

Requests are kept in environment variables, like the choice of engine and device. This module
imports no engine; ``jax_parallel`` does the work.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from bihm_repro.engine.choice import JAX_DEVICES, device_name, engine_name
from bihm_repro.errors import InputError

__all__ = ["Parallel", "choose_parallel", "requested", "several_hosts"]

_VARIABLES = ("BIHM_DEVICES", "BIHM_HOSTS", "BIHM_HOST_ID", "BIHM_COORDINATOR")
# The number of processes and the process of a job step, as the launchers give them to each.
_LAUNCHERS = (
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
)


@dataclass(frozen=True)
class Parallel:
    """How many devices on this host (None: all) and how many hosts; which of them this is."""

    devices: int | None = None
    hosts: int = 1
    host_id: int = 0
    coordinator: str = ""
    """HOST:PORT of host 0; empty where JAX detects the launcher's."""


def choose_parallel(
    devices: int | None = None,
    hosts: int | None = None,
    host_id: int | None = None,
    coordinator: str | None = None,
) -> None:
    """Record and check the options of the command line, after those of ``choice.choose``."""
    for variable in _VARIABLES[1:]:
        os.environ.pop(variable, None)
    if devices is None and os.environ.get("BIHM_DEVICES"):
        devices = requested().devices
    if hosts is None and host_id is None and coordinator is None:
        hosts, host_id, coordinator = _launched()
    elif None in (hosts, host_id, coordinator):
        raise InputError("--hosts, --host-id and --coordinator HOST:PORT are given together")
    if devices is None and hosts == 1:
        return
    _check_engine("--devices" if hosts == 1 else "--hosts")
    _check(devices, hosts or 1, host_id or 0, coordinator or "")
    for variable, value in zip(_VARIABLES, (devices, hosts, host_id, coordinator)):
        if value is not None:
            os.environ[variable] = str(value)


def requested() -> Parallel:
    """Return what :func:`choose_parallel` recorded; ``BIHM_DEVICES`` may be the user's own."""
    devices, hosts, host_id, coordinator = (os.environ.get(name) for name in _VARIABLES)
    if devices and not devices.isdigit():
        raise InputError(f"BIHM_DEVICES={devices!r}: an integer of at least 1 is needed")
    return Parallel(
        int(devices) if devices else None, int(hosts or 1), int(host_id or 0), coordinator or ""
    )


def several_hosts() -> bool:
    """Return whether this process is one of several that train one model."""
    return requested().hosts > 1


def _launched() -> tuple[int, int, str]:
    """Return number of processes, process and coordinator under Slurm or Open MPI; 1 otherwise."""
    if device_name() in JAX_DEVICES:
        for count, index in _LAUNCHERS:
            if int(os.environ.get(count) or 1) > 1 and os.environ.get(index):
                return int(os.environ[count]), int(os.environ[index]), ""
    return 1, 0, ""


def _check_engine(option: str) -> None:
    if engine_name() == "theano":
        raise InputError(
            f"{option}: theano runs on one device of one host; use --engine pytensor "
            f"--device {' or '.join(JAX_DEVICES)}"
        )
    if device_name() not in JAX_DEVICES:
        raise InputError(
            f"{option}: device {device_name()} is not parallel over devices or hosts; "
            f"use --device {' or '.join(JAX_DEVICES)}"
        )


def _check(devices: int | None, hosts: int, host_id: int, coordinator: str) -> None:
    if devices is not None and devices < 1:
        raise InputError(f"--devices {devices}: at least 1 is needed")
    if hosts < 1 or not 0 <= host_id < hosts:
        raise InputError(
            f"--hosts {hosts} --host-id {host_id}: hosts are numbered from 0 to the "
            "number of hosts less 1"
        )
    if coordinator and not re.fullmatch(r".+:[0-9]{1,5}", coordinator):
        raise InputError(
            f"--coordinator {coordinator!r}: HOST:PORT of host 0 is needed, such as 10.0.0.1:29500"
        )

"""Training on several hosts: all start from host 0's state and stop where host 0 does.

Every host runs the same main loop on the same mini-batches, of which its devices compute a part.
Clocks and signals differ between hosts, so that decisions which depend on them are exchanged
after every group of updates. Host 0 writes the run folder.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import bihm_repro
from bihm_repro.engine.parallel import requested
from bihm_repro.errors import InputError
from bihm_repro.recipes.recipe import InitialRecipe
from bihm_repro.runs.checkpoint import divided, joined
from bihm_repro.training.extensions import Extension, MainLoop
from bihm_repro.training.log import TrainingLog

__all__ = ["Agreement", "code_fingerprint"]


def code_fingerprint() -> str:
    """Return a digest of the package's source files."""
    root = Path(bihm_repro.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".h"):
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


class Agreement(Extension):
    """Keeps the hosts' main loops in step; it comes before the extensions that write."""

    def __init__(self, facts: dict[str, str]) -> None:
        """Take what has to be the same on every host, such as the data's fingerprint."""
        from bihm_repro.engine import jax_parallel

        self._hosts = jax_parallel
        self.facts = facts

    def before_training(self, loop: MainLoop) -> None:
        """Compare recipe, data and code of all hosts; receive host 0's state."""
        # The initial parameters come from host 0, so that only it has to have their file.
        recipe = replace(loop.recipe, initial=InitialRecipe())
        self._compare({"recipe": recipe.fingerprint(), **self.facts, "code": code_fingerprint()})
        record = self._hosts.share(loop.log.to_record())
        groups = {
            "parameter": loop.model.get_values(),
            "rule": loop.rule_state or {},
            "best": loop.best or {},
        }
        mine = {name: np.asarray(value) for name, value in joined(groups).items()}
        shared = self._hosts.share_arrays(mine)
        if requested().host_id:
            loop.resume(TrainingLog.from_record(record), divided(shared))

    def after_batch(self, loop: MainLoop) -> None:
        """Agree on stopping, and on the size of the next group."""
        self._agree(loop)

    def between_epochs(self, loop: MainLoop) -> None:
        """Agree on stopping."""
        self._agree(loop)

    def after_training(self, loop: MainLoop) -> None:
        """Disconnect from the other hosts."""
        self._hosts.leave()

    def _compare(self, facts: dict[str, str]) -> None:
        first, *others = self._hosts.exchange(facts)
        for host, found in enumerate(others, start=1):
            for name, value in first.items():
                if found[name] != value:
                    raise InputError(
                        f"host {host} has another {name} than host 0 ({found[name]} "
                        f"and {value}): start all hosts with the same {name}"
                    )

    def _agree(self, loop: MainLoop) -> None:
        log, status = loop.log, loop.log.status
        received: list[dict[str, Any]] = self._hosts.exchange(
            {
                "pause": log.pause,
                "measure_first": log.measure_first,
                "stop": status.phase_stop,
                "cut": status.cut_by_budget,
                "off_schedule": log.off_schedule,
                "group": loop.update.group_size,
            }
        )
        first = received[0]
        pausing = [one for one in received if one["pause"]]
        log.pause = pausing[0]["pause"] if pausing else ""
        log.measure_first = bool(pausing) and pausing[0]["measure_first"]
        status.phase_stop, status.cut_by_budget = first["stop"], first["cut"]
        log.off_schedule = first["off_schedule"] or ("cut" if log.measure_first else "")
        loop.update.group_size = first["group"]

"""Writing to the run folder: the log, the best model, and checkpoints to resume from.

A checkpoint holds parameters, the step rule's state, the random counter, epoch and batch, running
sums, the rows of the log, and the fingerprint of the best parameters. Those are in ``model.npz``,
which is written first and whose predecessor is kept: the state on the disk always finds its own.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bihm_repro import __version__
from bihm_repro.errors import InputError
from bihm_repro.runs.arrays import fingerprint_of
from bihm_repro.runs.checkpoint import joined
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.record import source_commit
from bihm_repro.training.extensions import Extension, MainLoop

__all__ = ["Checkpoints", "CsvLog"]

SHORTEST_PAUSE = 5.0
"""Seconds between the checkpoints of two epochs that are shorter than this."""


class CsvLog(Extension):
    """Adds a row to log.csv after each epoch."""

    def __init__(self, run: RunDirectory, columns: list[str]) -> None:
        self.run, self.columns = run, columns

    def before_training(self, loop: MainLoop) -> None:
        """Write the rows of a resumed run again: the file may be ahead of the checkpoint."""
        self.run.write_log(self.columns, loop.log.rows)

    def between_epochs(self, loop: MainLoop) -> None:
        """Add the row just completed."""
        self.run.append_to_log(self.columns, loop.log.rows[-1])


class Checkpoints(Extension):
    """Saves the state every ``seconds``, in the middle of an epoch too, and at the ends.

    It has to be the last extension, so that what it saves has been seen by all others.
    """

    def __init__(
        self,
        run: RunDirectory,
        seconds: float,
        facts: dict[str, Any],
        clock: Any = time.monotonic,
        self_contained: bool = False,
    ) -> None:
        """Save to ``run``; ``facts`` (engine, data_fingerprint) go to status.json as they are.

        A ``self_contained`` state has the best parameters in it: with a time budget, model.npz
        goes on to hold what a shortened schedule finds, and the state stays as it was.
        """
        self.run, self.seconds, self.facts, self.clock = run, seconds, facts, clock
        self.self_contained = self_contained
        self._left_schedule = False
        self._last = clock()
        self._best: dict[str, np.ndarray] | None = None
        self._fingerprint = ""

    def before_training(self, loop: MainLoop) -> None:
        """Make sure that model.npz holds the best parameters of the state that is resumed."""
        if loop.best is not None:
            self._best, self._fingerprint = loop.best, fingerprint_of(loop.best)
            if _stored_fingerprint(self.run) != self._fingerprint:
                self.run.write_model(loop.best, _meta(loop))

    def after_batch(self, loop: MainLoop) -> None:
        """Save where it is due, unless the epoch is about to be measured.

        Where a time budget is about to cut the schedule, the state is saved as if it did not.
        """
        if loop.log.off_schedule == "cut" and not self._left_schedule:
            self._left_schedule = True
            arrays, record = pack(loop)
            record["status"].update(phase_stop="", cut_by_budget=False)
            self._write_state(arrays, record)
        if not loop.log.status.phase_stop and self.clock() - self._last >= self.seconds:
            self.save(loop)

    def between_epochs(self, loop: MainLoop) -> None:
        """Save when the last time is long enough ago."""
        if self.clock() - self._last >= min(self.seconds, SHORTEST_PAUSE):
            self.save(loop)

    def between_phases(self, loop: MainLoop) -> None:
        """Save always: compiling the next phase takes a while."""
        self.save(loop)

    def after_training(self, loop: MainLoop) -> None:
        """Save always; a finished run needs no state, only its model, log and status."""
        self.save(loop)
        if loop.log.status.finished and not loop.log.off_schedule:
            self.run.remove_state()

    def save(self, loop: MainLoop) -> None:
        """Write a new best model, then the state that names it, then the status."""
        if loop.best is not self._best and loop.best is not None:
            self._best, self._fingerprint = loop.best, fingerprint_of(loop.best)
            self.run.write_model(loop.best, _meta(loop), keep=True)
        if not loop.log.off_schedule:
            self._write_state(*pack(loop, best=self.self_contained))
        self.run.write_status(_public_status(loop, self.facts))
        self._last = self.clock()

    def _write_state(self, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> None:
        record.update(data_fingerprint=self.facts["data_fingerprint"], best=self._fingerprint)
        self.run.write_state(arrays, record)


def _stored_fingerprint(run: RunDirectory) -> str:
    try:
        return run.read_model().fingerprint
    except InputError:
        return ""


def pack(loop: MainLoop, best: bool = True) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return what resuming needs, with or without the ``best`` parameters, and as a record."""
    status = loop.log.status
    status.seconds = loop.seconds
    parts = {"parameter": loop.model.get_values()}
    if best:
        parts["best"] = loop.best or {}
    if loop.update is not None:
        status.draw = loop.update.counter
        parts["rule"] = loop.update.get_state()
    return joined(parts), loop.log.to_record()


def _meta(loop: MainLoop) -> dict[str, Any]:
    model = loop.model
    return {
        "kind": model.kind,
        "layers": list(model.layers),
        "data_dim": int(model.data_dim),
        "recipe_fingerprint": loop.recipe.fingerprint(),
    }


def _public_status(loop: MainLoop, facts: dict[str, Any]) -> dict[str, Any]:
    status = loop.log.status
    finished = status.finished and not loop.log.off_schedule
    return {
        "finished": finished,
        "phase": status.phase,
        "phases": len(loop.recipe.phases),
        "epochs": status.epoch,
        "updates": status.updates,
        "seconds": round(loop.seconds, 3),
        "best_valid": status.best_valid,
        "best_epoch": status.best_epoch,
        "cut_by_budget": status.cut_by_budget,
        "draw": status.draw,
        **facts,
        "recipe_fingerprint": loop.recipe.fingerprint(),
        "commit": source_commit(),
        "version": __version__,
    }

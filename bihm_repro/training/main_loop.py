"""The main loop: phases, epochs, mini-batches. It does almost nothing; the extensions do.

Each phase compiles its own update, starts from the best parameters so far with a fresh step rule
(section 4 of the paper: K = 10 until convergence, then K = 100 from there), and continues until
the log holds a ``phase_stop``. The loop can be left after any update, or group of them, and resumed
there.
Where a phase keeps Polyak averages of the parameters, those are measured and kept as best.

An update may take several mini-batches in one call (its ``group_size``); the loop then proceeds by
such groups.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from bihm_repro.recipes.recipe import Phase, Recipe
from bihm_repro.runs.arrays import check_headers
from bihm_repro.training.extensions import Extension
from bihm_repro.training.log import TrainingLog

__all__ = ["MainLoop", "Batches", "batch_groups"]


class Batches(Protocol):
    """What the loop needs of a stream of mini-batches."""

    def epoch(self, epoch: int, start: int = 0) -> Iterable[np.ndarray]:
        """Give the mini-batches of ``epoch``, from number ``start`` on."""


def batch_groups(batches: Iterable[np.ndarray], update: Any) -> Iterator[list[np.ndarray]]:
    """Divide ``batches`` into the groups that ``update`` is given, ``update.group_size`` in each.

    The size is read before each group, and no batch is read before its group is needed.
    """
    left = iter(batches)
    while group := list(itertools.islice(left, update.group_size)):
        yield group


class MainLoop:
    """Runs the phases of ``recipe`` on ``model``; the log says how far it has come."""

    def __init__(
        self,
        model: Any,
        recipe: Recipe,
        compile_phase: Callable[[Phase, int], Any],
        open_stream: Callable[[Phase], Batches],
        extensions: Sequence[Extension],
    ) -> None:
        """Prepare; ``compile_phase(phase, counter)`` gives the update, ``open_stream`` the data."""
        self.model = model
        self.recipe = recipe
        self.extensions = list(extensions)
        self.log = TrainingLog()
        self.update: Any = None
        self.best: dict[str, np.ndarray] | None = None
        self._compile_phase = compile_phase
        self._open_stream = open_stream
        self.rule_state: Mapping[str, np.ndarray] | None = None
        """The step rule's state of a checkpoint, until the phase begins."""
        self._started = time.monotonic()

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self.recipe.phases[self.log.status.phase]

    @property
    def seconds(self) -> float:
        """Seconds of training so far, those before a resumption among them."""
        return time.monotonic() - self._started

    def resume(self, log: TrainingLog, state: Mapping[str, dict[str, np.ndarray]]) -> None:
        """Resume from a checkpoint's log, and its state by parts (``runs.checkpoint.divided``)."""
        self.model.set_values(state["parameter"])
        self.log, self.rule_state, self.best = log, state["rule"], state["best"] or None
        self._started = time.monotonic() - log.status.seconds

    def run(self) -> TrainingLog:
        """Train until the last phase is over or the log asks for a pause; returns the log."""
        try:
            self._call("before_training")
            status = self.log.status
            while not (status.finished or self.log.pause):
                self._begin_phase()
                while not (status.phase_stop or self.log.pause):
                    self._run_epoch()
                if status.phase_stop:
                    self._end_phase()
            self._call("after_training")
        finally:
            self._call("close")
        return self.log

    def _begin_phase(self) -> None:
        status = self.log.status
        if status.phase_stop:
            return
        self.update = self._compile_phase(self.phase, status.draw)
        if status.phase_updates and self.rule_state is not None:
            check_headers(self.rule_state, self.update.get_state(), "the state's array")
            self.update.set_state(self.rule_state)
        self.rule_state = None
        self._stream = self._open_stream(self.phase)
        self._call("before_phase")

    def _run_epoch(self) -> None:
        status, log = self.log.status, self.log
        self.update.learning_rate = self.phase.rate_at(status.phase_epoch)
        self._call("before_epoch")
        for batches in batch_groups(self._stream.epoch(status.epoch, status.batch), self.update):
            self._run_group(batches)
            if log.pause or status.phase_stop:
                break
        if log.pause and not (status.phase_stop or log.measure_first):
            return
        log.row = self._new_row()
        with self._measured_parameters():
            self._call("after_epoch")
        log.rows.append(log.row)
        status.epoch += 1
        status.batch, status.sums, status.examples = 0, {}, 0
        self._call("between_epochs")

    @contextmanager
    def _measured_parameters(self) -> Iterator[None]:
        """Put the running means of the parameters, where they are kept, in the model's place."""
        averages = self.update.averages
        if not averages:
            yield
            return
        latest = self.model.get_values()
        self.model.set_values({**latest, **averages})
        try:
            yield
        finally:
            self.model.set_values(latest)

    def _run_group(self, batches: list[np.ndarray]) -> None:
        status = self.log.status
        for x, metrics in zip(batches, self.update.steps(batches)):
            status.batch += 1
            status.updates += 1
            status.phase_updates += 1
            status.examples += len(x)
            # One after the other, so that the sums do not depend on the groups.
            for name, value in metrics.items():
                status.sums[name] = status.sums.get(name, 0.0) + value
        self._call("after_batch")

    def _new_row(self) -> dict[str, Any]:
        status = self.log.status
        row = {
            "phase": status.phase,
            "epoch": status.epoch + 1,
            "updates": status.updates,
            "seconds": round(self.seconds, 3),
            "learning_rate": self.phase.rate_at(status.phase_epoch),
            "samples": self.phase.samples,
        }
        for name, total in status.sums.items():
            row[f"train_{name}"] = total / max(1, status.examples)
        return row

    def _end_phase(self) -> None:
        status = self.log.status
        if self.update is not None:
            status.draw = self.update.counter
        if self.best is not None:
            self.model.set_values(self.best)
        self._call("after_phase")
        status.phase_stop = ""
        if status.phase + 1 == len(self.recipe.phases):
            status.finished = True
            return
        status.phase += 1
        status.phase_start, status.phase_updates = status.epoch, 0
        self.update = None
        self._call("between_phases")

    def _call(self, event: str) -> None:
        for extension in self.extensions:
            getattr(extension, event)(self)

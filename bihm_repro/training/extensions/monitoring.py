"""Measuring while training: the validation figure that decides, and test figures to look at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bihm_repro.training.extensions import Extension
from bihm_repro.training.extensions.stopping import non_finite

if TYPE_CHECKING:
    from bihm_repro.recipes.recipe import Phase
    from bihm_repro.training.main_loop import MainLoop

__all__ = ["Validation", "BestSoFar", "FiguresOnTest"]

Measure = Callable[[], dict[str, float]]


class Validation(Extension):
    """Writes the validation figures of every ``every``-th epoch, and of a phase's last.

    A phase may have a K of its own for them. The best figure so far is then measured anew with it,
    so that figures are compared with their like.
    """

    def __init__(self, measures: Mapping[int, Measure], samples: int, every: int = 1) -> None:
        """Measure with ``measures[K]()``, whose figures are ``valid_log_p`` and its like.

        ``samples`` is the K of phases that have none of their own.
        """
        self.measures, self.samples, self.every = measures, samples, every

    def before_phase(self, loop: MainLoop) -> None:
        """Measure the best parameters, which the model holds, where the last phase's K differs."""
        status, phases = loop.log.status, loop.recipe.phases
        if status.phase and not status.phase_updates and status.best_valid is not None and (
                self._k(loop.phase) != self._k(phases[status.phase - 1])):
            status.best_valid = self._measure(loop.phase)["valid_log_p"]

    def after_epoch(self, loop: MainLoop) -> None:
        """Measure where it is due."""
        log = loop.log
        due = (log.status.phase_epoch + 1) % self.every == 0
        if due or log.status.phase_stop or log.pause:
            figures = self._measure(loop.phase)
            if not math.isfinite(figures["valid_log_p"]):
                raise non_finite(loop, "the validation log p")
            log.row.update(figures)

    def _k(self, phase: Phase) -> int:
        return phase.valid_samples or self.samples

    def _measure(self, phase: Phase) -> dict[str, float]:
        return self.measures[self._k(phase)]()


class BestSoFar(Extension):
    """Keeps the parameters with the best validation log p, and marks their epoch in the log."""

    def after_epoch(self, loop: MainLoop) -> None:
        """Compare the figure of this epoch with the best one."""
        status, row = loop.log.status, loop.log.row
        figure = row.get("valid_log_p")
        if figure is None:
            return
        row["best"] = status.best_valid is None or figure > status.best_valid
        if row["best"]:
            status.best_valid, status.best_epoch = figure, row["epoch"]
            loop.best = loop.model.get_values()


class FiguresOnTest(Extension):
    """Writes the test figures of every ``every``-th epoch; they decide nothing."""

    def __init__(self, measure: Measure, every: int) -> None:
        """Measure with ``measure()``, whose keys are columns of the log."""
        self.measure, self.every = measure, every

    def after_epoch(self, loop: MainLoop) -> None:
        """Measure where it is due."""
        if (loop.log.status.epoch + 1) % self.every == 0:
            figures = self.measure()
            loop.log.row.update({name: value for name, value in figures.items()
                                 if math.isfinite(value)})

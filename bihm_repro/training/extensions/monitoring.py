"""Measuring while training: the validation figure that decides, and test figures to look at."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from bihm_repro.training.extensions import Extension
from bihm_repro.training.extensions.stopping import non_finite

if TYPE_CHECKING:
    from bihm_repro.training.main_loop import MainLoop

__all__ = ["Validation", "BestSoFar", "FiguresOnTest"]

Measure = Callable[[], dict[str, float]]


class Validation(Extension):
    """Writes the validation figures of every ``every``-th epoch, and of a phase's last."""

    def __init__(self, measure: Measure, every: int = 1) -> None:
        """Measure with ``measure()``, whose figures are ``valid_log_p`` and its like."""
        self.measure, self.every = measure, every

    def after_epoch(self, loop: MainLoop) -> None:
        """Measure where it is due."""
        log = loop.log
        due = (log.status.phase_epoch + 1) % self.every == 0
        if due or log.status.phase_stop or log.pause:
            figures = self.measure()
            if not math.isfinite(figures["valid_log_p"]):
                raise non_finite(loop, "the validation log p")
            log.row.update(figures)


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

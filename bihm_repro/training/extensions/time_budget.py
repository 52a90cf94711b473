"""A time budget for the phases: a schedule that does not fit is shortened, and resumed uncut.

Of the phases still to come each gets three times the share of the one after it; phases whose share
would not pay for their compilation are skipped. Before the first cut the state is saved as the
recipe's own schedule has it, and stays so: what the shortened schedule trains after it is measured
and kept as the model, but resuming continues as if there had been no budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from bihm_repro.recipes.recipe import Phase
from bihm_repro.training.extensions import Extension, MainLoop

__all__ = ["SkippedPhases", "TimeBudget", "shares"]

RATIO = 3.0
"""The share of a phase, as a multiple of the share of the next."""
FEWEST_UPDATES = 20
WORTH = 3.0
"""How many times its compilation a phase's share has to be."""


def shares(phases: int) -> list[float]:
    """Return the shares of that many phases, which sum to 1.

    >>> shares(2)
    [0.75, 0.25]
    """
    weights = [RATIO**-index for index in range(phases)]
    return [weight / sum(weights) for weight in weights]


class TimeBudget(Extension):
    """Gives each phase its share of ``seconds``; pauses when they are used up."""

    def __init__(self, seconds: float, valid_rows: int = 0, clock: Any = time.monotonic) -> None:
        """Start counting now, before the monitors are compiled."""
        self.clock, self.valid_rows = clock, valid_rows
        self.start = clock()
        self.end = self.phase_end = self.start + seconds
        self.compilation = 0.0
        self._began = self._batch = self.start
        self._updates = 0
        self._measuring = 0.0
        self._per_sample = 0.0

    def before_training(self, loop: MainLoop) -> None:
        """Leave as much time for compiling the evaluation as compiling the monitors took."""
        self._began = self.clock()
        self.end -= self._began - self.start

    def before_phase(self, loop: MainLoop) -> None:
        """Set this phase's share of the time that is left; the first one has been compiled now."""
        now, status = self.clock(), loop.log.status
        self.compilation = self.compilation or now - self._began
        phases = range(status.phase, len(loop.recipe.phases))
        self.phase_end = now + self.left * shares(len(self.affordable(loop, phases, first=True)))[0]
        self._began, self._updates = now, status.updates

    @property
    def left(self) -> float:
        """Seconds that are left for training."""
        return max(0.0, self.end - self.clock())

    def after_batch(self, loop: MainLoop) -> None:
        """Cut the phase short, or pause in the last one, when its share is used up."""
        status, log = loop.log.status, loop.log
        self._batch = self.clock()
        rows = loop.phase.batch_size or loop.recipe.training.batch_size
        self._per_sample = (self._batch - self._began) / max(
            1, (status.updates - self._updates) * rows * loop.phase.samples
        )
        if self._batch + self.measuring(loop) < self.phase_end:
            return
        log.leave_schedule("cut")
        status.cut_by_budget = True
        following = range(status.phase + 1, len(loop.recipe.phases))
        if self.affordable(loop, following):
            log.stop_phase("its share of the time budget is used up")
        else:
            log.request_pause(f"the time budget is used up{_left_out(following)}", True)

    def between_epochs(self, loop: MainLoop) -> None:
        """Remember how long measuring took."""
        self._measuring = max(self._measuring, self.clock() - self._batch)

    def measuring(self, loop: MainLoop) -> float:
        """Seconds that measuring an epoch takes; estimated from the updates before the first."""
        if self._measuring:
            return self._measuring
        samples = loop.phase.valid_samples or loop.recipe.monitor.valid_samples
        # A forward pass alone, about half of an update.
        return self._per_sample * self.valid_rows * samples / 2

    def affordable(self, loop: MainLoop, phases: Sequence[int], first: bool = False) -> list[int]:
        """Return which of ``phases`` get a share, the earliest left out first.

        With ``first`` the first of them has been compiled and is not left out.
        """
        kept, fixed = list(phases), int(first)
        while len(kept) > fixed:
            given = shares(len(kept))
            if all(
                self.left * given[index] >= self._needed(loop, loop.recipe.phases[number])
                for index, number in enumerate(kept)
                if index >= fixed
            ):
                break
            del kept[fixed]
        return kept

    def _needed(self, loop: MainLoop, phase: Phase) -> float:
        batch = phase.batch_size or loop.recipe.training.batch_size
        updates = FEWEST_UPDATES * self._per_sample * batch * phase.samples
        return WORTH * self.compilation + updates + self._measuring


def _left_out(phases: range) -> str:
    """Say that no time is left for ``phases``, counted from 0.

    >>> _left_out(range(1, 4)), _left_out(range(3, 4)), _left_out(range(4, 4))
    (', phases 2 to 4 are skipped', ', phase 4 is skipped', '')
    """
    if len(phases) > 1:
        return f", phases {phases.start + 1} to {phases.stop} are skipped"
    return f", phase {phases.stop} is skipped" if phases else ""


class SkippedPhases(Extension):
    """Skips the phases that ``budget`` cannot pay for; comes after the state has been saved."""

    def __init__(self, budget: TimeBudget, report: Callable[[str], None]) -> None:
        """Report each skipped phase as a line."""
        self.budget, self.report = budget, report

    def between_phases(self, loop: MainLoop) -> None:
        """Go to the first phase that can be afforded, or pause where there is none."""
        status, count = loop.log.status, len(loop.recipe.phases)
        kept = self.budget.affordable(loop, range(status.phase, count))
        following = kept[0] if kept else count
        if following == status.phase:
            return
        loop.log.leave_schedule("skipped")
        status.cut_by_budget = True
        for number in range(status.phase, following):
            self.report(
                f"phase {number + 1} of {count} is skipped: the time budget has "
                f"{self.budget.left:.0f} s left; resuming trains it"
            )
        if kept:
            status.phase = following
        else:
            loop.log.request_pause("the time budget is used up")

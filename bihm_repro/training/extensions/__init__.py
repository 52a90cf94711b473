"""Extensions of the main loop: each handles some of its events.

They are called in the order of their list, and see what those before them wrote to the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bihm_repro.training.main_loop import MainLoop
else:
    MainLoop = Any  # the main loop imports this module

__all__ = ["Extension", "MainLoop"]


class Extension:
    """The events of a main loop, each doing nothing.

    1. ``before_training``, once.
    2. ``before_phase``, when the phase's update has been compiled.
    3. ``before_epoch``, also where an epoch is entered in its middle.
    4. ``after_batch``, after each update, or each group of them where the update takes several
       mini-batches in one call: the counters may then have moved by more than one.
    5. ``after_epoch``, to measure: ``loop.log.row`` is the row of this epoch. Where the phase keeps
       Polyak averages, the model holds them during this event, and its own parameters after it.
    6. ``between_epochs``, when the row is in the log and the counters point to the next epoch.
    7. ``after_phase``, with the best parameters in the model.
    8. ``between_phases``, when the counters point to the next phase.
    9. ``after_training``, when the loop ends without an error; ``close``, however it ends.
    """

    def before_training(self, loop: MainLoop) -> None:
        """Before anything."""

    def before_phase(self, loop: MainLoop) -> None:
        """Before the first epoch of a phase."""

    def before_epoch(self, loop: MainLoop) -> None:
        """Before the first batch of an epoch, or the first after a resumption."""

    def after_batch(self, loop: MainLoop) -> None:
        """After an update, or a group of them."""

    def after_epoch(self, loop: MainLoop) -> None:
        """When the batches of an epoch are done; metrics go to ``loop.log.row``."""

    def between_epochs(self, loop: MainLoop) -> None:
        """When the epoch's row is complete."""

    def after_phase(self, loop: MainLoop) -> None:
        """When a phase has ended."""

    def between_phases(self, loop: MainLoop) -> None:
        """When the counters point to the start of the next phase."""

    def after_training(self, loop: MainLoop) -> None:
        """When training has finished or paused."""

    def close(self, loop: MainLoop) -> None:
        """Release what is held, after success or failure."""

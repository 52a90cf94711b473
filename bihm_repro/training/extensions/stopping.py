"""When to stop: patience, epochs, time, a signal, a metric that is not finite.

Each of these writes a record to the log, which the main loop obeys; only a non-finite metric is
an error, as nothing can be saved after it.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from typing import Any

from bihm_repro.errors import InputError
from bihm_repro.training.extensions import Extension, MainLoop

__all__ = ["EpochLimit", "Patience", "PauseAfter", "Interruption", "FiniteMetrics", "non_finite"]


class EpochLimit(Extension):
    """Ends a phase after the epochs that its recipe gives it."""

    def after_epoch(self, loop: MainLoop) -> None:
        """Compare the epochs of the phase with their limit."""
        if loop.log.status.phase_epoch + 1 >= loop.phase.last_epoch:
            loop.log.stop_phase(f"{loop.phase.last_epoch} epochs")


class Patience(Extension):
    """Ends a phase when no epoch of the last ``patience`` has improved the validation log p.

    Only an epoch with a validation can end it.
    """

    def after_epoch(self, loop: MainLoop) -> None:
        """Count the epochs of this phase since the best one."""
        if "valid_log_p" not in loop.log.row:
            return
        status = loop.log.status
        waited = status.epoch + 1 - max(status.best_epoch, status.phase_start)
        if waited >= loop.phase.patience:
            loop.log.stop_phase(f"no better validation log p in {waited} epochs")


class PauseAfter(Extension):
    """Pauses after some seconds, in the middle of an epoch too."""

    def __init__(self, seconds: float, clock: Any = time.monotonic) -> None:
        self.clock = clock
        self.end = clock() + seconds

    def after_batch(self, loop: MainLoop) -> None:
        """Pause when the time is over."""
        if self.clock() >= self.end:
            loop.log.request_pause("the time limit is reached")


class Interruption(Extension):
    """Ctrl-C or SIGTERM: finish the current updates, then pause; a second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.received: str = ""
        self._before: dict[int, Any] = {}

    def before_training(self, loop: MainLoop) -> None:
        """Handle the two signals, where Python allows it: in the main thread."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)

    def after_batch(self, loop: MainLoop) -> None:
        """Turn a signal into a record."""
        if self.received:
            loop.log.request_pause(self.received)

    def between_epochs(self, loop: MainLoop) -> None:
        """A signal may have come while measuring."""
        self.after_batch(loop)

    def close(self, loop: MainLoop) -> None:
        """Restore the handlers of the signals."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, frame: Any) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = "interrupted" if number == signal.SIGINT else "asked to end"


class FiniteMetrics(Extension):
    """Fails after the first updates with a log-likelihood that is not a finite number."""

    def after_batch(self, loop: MainLoop) -> None:
        """Check the running sums, which a single bad batch makes infinite or NaN."""
        if not all(math.isfinite(total) for total in loop.log.status.sums.values()):
            raise non_finite(loop, "the training log-likelihood")


def non_finite(loop: MainLoop, what: str) -> InputError:
    """Return the error for a metric that is not finite: where, what is kept, what to try."""
    status = loop.log.status
    phase = loop.phase
    kept = (
        f"the best model (epoch {status.best_epoch}) is kept"
        if loop.best is not None
        else ("no epoch was over yet")
    )
    return InputError(
        f"{what} is not a finite number by update {status.updates} (phase {status.phase}, epoch "
        f"{status.epoch + 1}); {kept}, and so is the last good state; try a lower rate, --set "
        f"phases.{status.phase}.learning_rate={phase.rate_at(status.phase_epoch) / 3:.2g}, or "
        "--set training.clip_norm=100, in a new folder (--out) or with --fresh"
    )

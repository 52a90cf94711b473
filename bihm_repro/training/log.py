"""The log: how far training has come, what was measured, and whether it should stop.

The main loop and its extensions speak through the log and through nothing else. A stop is a
record in it: ``phase_stop`` ends the phase after the epoch at hand has been measured, ``pause``
leaves everything as it is, to go on later.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Optional

__all__ = ["Status", "TrainingLog"]


@dataclass
class Status:
    """Where training stands; JSON values only, so that a checkpoint can hold it."""

    phase: int = 0
    phase_start: int = 0
    """Epochs that were over when the phase began."""
    epoch: int = 0
    """Epochs that are over."""
    batch: int = 0
    """Mini-batches done of the epoch at hand."""
    updates: int = 0
    phase_updates: int = 0
    draw: int = 0
    """The next draw of the random numbers, as of the last checkpoint or end of a phase."""
    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    """Running sums of the update's own figures over the epoch at hand."""
    examples: int = 0
    best_valid: Optional[float] = None  # noqa: UP045 (Python 3.9)
    best_epoch: int = 0
    phase_stop: str = ""
    """Why the phase has to end, empty while it goes on."""
    cut_by_budget: bool = False
    """Whether a phase was ended by a time budget and not by its own rules."""
    finished: bool = False

    @property
    def phase_epoch(self) -> int:
        """Epochs of this phase that are over."""
        return self.epoch - self.phase_start


class TrainingLog:
    """The status, the rows of past epochs, and the row of the epoch being measured."""

    def __init__(self, status: Status | None = None,
                 rows: list[dict[str, Any]] | None = None) -> None:
        """Start from nothing, or from what a checkpoint held."""
        self.status = status or Status()
        self.rows = rows or []
        self.row: dict[str, Any] = {}
        self.pause = ""
        self.measure_first = False

    def stop_phase(self, reason: str) -> None:
        """Ask for the end of the phase; the first reason given stands."""
        self.status.phase_stop = self.status.phase_stop or reason

    def request_pause(self, reason: str, measure_first: bool = False) -> None:
        """Ask to leave training after the update, or the group of them, at hand.

        With ``measure_first`` the epoch is taken as over and measured before; without it,
        training goes on later as if it had never been left.
        """
        self.pause = self.pause or reason
        self.measure_first = self.measure_first or measure_first

    def to_record(self) -> dict[str, Any]:
        """Return all of it but the pause, as JSON values."""
        return {"status": asdict(self.status), "rows": self.rows}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> TrainingLog:
        """Rebuild a log from :meth:`to_record`'s value."""
        return cls(Status(**record["status"]), list(record["rows"]))

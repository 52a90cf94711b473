"""The log: how far training has come, what was measured, and whether it should stop.

The main loop and its extensions communicate through the log alone. A stop is a
record in it: ``phase_stop`` ends the phase after the current epoch has been measured, ``pause``
leaves everything as it is, to be resumed later.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bihm_repro.runs.record import Status

__all__ = ["TrainingLog"]


class TrainingLog:
    """The status, the rows of past epochs, and the row of the epoch being measured."""

    def __init__(
        self, status: Status | None = None, rows: list[dict[str, Any]] | None = None
    ) -> None:
        """Start from nothing, or from what a checkpoint held."""
        self.status = status or Status()
        self.rows = rows or []
        self.row: dict[str, Any] = {}
        self.pause = ""
        self.measure_first = False
        self.off_schedule = ""
        """How training left the recipe's schedule for a time budget: "cut" or "skipped"."""

    def leave_schedule(self, reason: str) -> None:
        """Say that what follows is not what the recipe has; the first reason given is kept."""
        self.off_schedule = self.off_schedule or reason

    def stop_phase(self, reason: str) -> None:
        """Ask for the end of the phase; the first reason given is kept."""
        self.status.phase_stop = self.status.phase_stop or reason

    def request_pause(self, reason: str, measure_first: bool = False) -> None:
        """Ask to leave training after the current update, or group of updates.

        With ``measure_first`` the epoch is taken as over and measured before; without it,
        training resumes later as if it had never been left.
        """
        self.pause = self.pause or reason
        self.measure_first = self.measure_first or measure_first

    def to_record(self) -> dict[str, Any]:
        """Return all of it but the pause, as JSON values."""
        return {"status": asdict(self.status), "rows": self.rows}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> TrainingLog:
        """Rebuild a log from :meth:`to_record`'s value."""
        return cls(Status(**record.get("status", {})), list(record.get("rows", [])))

"""A time budget: so much for training, the rest for the evaluation that always follows."""

from __future__ import annotations

import re
import time
from typing import Any

from bihm_repro.errors import InputError

__all__ = ["Budget", "parse_duration"]

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
EVALUATION_SHARE = 0.15


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``10m``, ``1.5h``, ``1h30m`` or a bare number of seconds.

    >>> parse_duration("1h30m")
    5400.0
    """
    text = text.strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text or (
            len(parts) > 1 and not all(unit for _, unit in parts)):
        raise InputError(f"{text!r} is not a time: write it as 90s, 10m, 1.5h or 1h30m")
    seconds = sum(float(number) * UNITS[unit or "s"] for number, unit in parts)
    if seconds <= 0:
        raise InputError(f"{text!r} is no time at all: give more than 0 seconds")
    return seconds


class Budget:
    """Seconds from now on, or no limit where ``seconds`` is None."""

    def __init__(self, seconds: float | None, clock: Any = time.monotonic) -> None:
        """Start counting now."""
        self.seconds, self._clock, self._start = seconds, clock, clock()

    @property
    def for_training(self) -> float | None:
        """Seconds that training may still take."""
        if self.seconds is None:
            return None
        used = self._clock() - self._start
        return max(0.0, self.seconds * (1 - EVALUATION_SHARE) - used)

    @property
    def for_evaluation(self) -> float | None:
        """Seconds that the evaluation may take; its share, also where training was late."""
        if self.seconds is None:
            return None
        used = self._clock() - self._start
        return max(self.seconds * EVALUATION_SHARE, self.seconds - used)

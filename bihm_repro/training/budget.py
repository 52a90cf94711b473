"""A time budget: a share for training, the rest for the evaluation that always follows."""

from __future__ import annotations

import re
import time
from typing import Any

from bihm_repro.errors import InputError
from bihm_repro.recipes.recipe import EvaluationRecipe

__all__ = ["Budget", "fitted_evaluation", "parse_duration"]

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
EVALUATION_SHARE = 0.15
FEWEST_EXAMPLES = 500
"""Rather fewer samples than fewer test examples than these."""


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``10m``, ``1.5h``, ``1h30m`` or a bare number of seconds.

    >>> parse_duration("1h30m")
    5400.0
    """
    text = text.strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if (
        not parts
        or "".join(number + unit for number, unit in parts) != text
        or (len(parts) > 1 and not all(unit for _, unit in parts))
    ):
        raise InputError(f"{text!r} is not a time: write it as 90s, 10m, 1.5h or 1h30m")
    seconds = sum(float(number) * UNITS[unit or "s"] for number, unit in parts)
    if seconds <= 0:
        raise InputError(f"{text!r} is not a time above 0: give more than 0 seconds")
    return seconds


class Budget:
    """Seconds from now on, or no limit where ``seconds`` is None."""

    def __init__(self, seconds: float | None, clock: Any = time.monotonic) -> None:
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


def fitted_evaluation(
    settings: EvaluationRecipe, examples: int, samples_per_second: float, seconds: float
) -> dict[str, Any]:
    """Cut an evaluation of ``examples`` test examples down to ``seconds``, where it is longer.

    Returns arguments for the evaluation: ``samples``, ``examples`` (0 for all), ``z_samples``,
    ``ess_samples`` and ``ess_examples``. 2 log Z and ESS get a sixth of the time each.
    """
    total = samples_per_second * seconds
    ks = sorted(settings.samples)
    while len(ks) > 1 and ks[-1] * min(examples, FEWEST_EXAMPLES) > total * 2 / 3:
        ks.pop()
    count = int(min(examples, max(total * 2 / 3 // ks[-1], min(examples, FEWEST_EXAMPLES))))
    ess_samples = min(settings.ess_samples, ks[-1])
    ess_examples = settings.ess_examples or examples
    if ess_samples:
        ess_examples = int(min(ess_examples, max(total / 6 // ess_samples, 1)))
    return {
        "samples": ks,
        "examples": 0 if count >= examples else count,
        "z_samples": int(min(settings.z_samples, max(total / 6, 1000))),
        "ess_samples": ess_samples,
        "ess_examples": ess_examples,
    }

"""Showing the points of a sweep while they run: a live view on a terminal, else plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tqdm import tqdm

from bihm_repro.cluster.points import Point
from bihm_repro.cluster.training import INTERRUPTED, Outcome
from bihm_repro.errors import InputError
from bihm_repro.progress import printable, say
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory

__all__ = ["View", "progress_line"]

ROWS = 20
"""Running points that a terminal shows."""
LINE_SECONDS = 60.0
"""Seconds between two plain lines of a point."""
READ_SECONDS = 2.0
"""Seconds between two looks at the run folders."""


def progress_line(status: dict[str, Any], recipe: Recipe) -> str:
    """Return phase, epoch, validation log p and the time left of a run on one line.

    The time left is that of all epochs that the recipe allows, at the mean pace so far; training
    may end before that.
    """
    epochs = status.get("epochs", 0)
    if not epochs:
        return "starting"
    phase = min(status.get("phase", 0), len(recipe.phases) - 1)
    parts = [f"phase {phase + 1}/{len(recipe.phases)}", f"epoch {epochs}"]
    if status.get("best_valid") is not None:
        parts.append(f"best validation -log p {-status['best_valid']:.3f}")
    if status.get("finished"):
        return ", ".join([*parts, "evaluation"])
    most = max(0, sum(phase.last_epoch for phase in recipe.phases) - epochs)
    left = most * status.get("seconds", 0.0) / epochs
    return ", ".join([*parts, f"at most {tqdm.format_interval(left)} left"])


class View:
    """A bar over all points and a row for each that runs; plain lines where nobody watches."""

    def __init__(
        self, points: Sequence[Point], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Show nothing yet."""
        self.points, self.clock = points, clock
        self.live = sys.stderr.isatty()
        self._recipes = {point: point.load() for point in points}
        self._shown: dict[Point, tuple[float, str]] = {}
        self._rows: list[tqdm] = []
        self._read = float("-inf")

    def __enter__(self) -> View:
        """Open the bar."""
        self._bar = tqdm(
            total=len(self.points),
            unit="run",
            disable=not self.live,
            dynamic_ncols=True,
            leave=False,
        )
        return self

    def __exit__(self, *error: object) -> None:
        """Take the view away."""
        for bar in (*self._rows, self._bar):
            bar.close()

    def say(self, line: str) -> None:
        """Print a line above the view."""
        with tqdm.external_write_mode(file=sys.stdout):
            say(line)

    def ended(self, point: Point, outcome: Outcome) -> None:
        """Say how a point has ended."""
        self._bar.update()
        if outcome.status == INTERRUPTED:
            self.say(f"{point.name}: interrupted, its state is saved")
        elif outcome.status:
            self.say(f"{point.name}: failed: {outcome.last_line}")
        else:
            self.say(f"{point.name}: done: {outcome.last_line}")

    def refresh(self, running: Iterable[Point]) -> None:
        """Read how far the running points are, and show it."""
        now = self.clock()
        if now - self._read < READ_SECONDS:
            return
        self._read = now
        lines = {point: self._line(point) for point in self.points if point in running}
        if self.live:
            self._draw([f"{point.name}: {line}" for point, line in lines.items()])
            return
        for point, line in lines.items():
            last, before = self._shown.get(point, (float("-inf"), ""))
            if line != before and (now - last >= LINE_SECONDS or _phase(line) != _phase(before)):
                self._shown[point] = now, line
                self.say(f"{point.name}: {line}")

    def _line(self, point: Point) -> str:
        try:
            return progress_line(RunDirectory(point.folder).read_status(), self._recipes[point])
        except (InputError, OSError) as error:
            return printable(error)

    def _draw(self, lines: list[str]) -> None:
        more = len(lines) - ROWS
        lines = lines[:ROWS] + ([f"and {more} more"] if more > 0 else [])
        while len(self._rows) < len(lines):
            self._rows.append(
                tqdm(
                    bar_format="{desc}",
                    position=len(self._rows) + 1,
                    leave=False,
                    dynamic_ncols=True,
                )
            )
        for row, line in zip(self._rows, lines + [""] * (len(self._rows) - len(lines))):
            row.set_description_str(printable(line))


def _phase(line: str) -> str:
    return line.partition(",")[0]

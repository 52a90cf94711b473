"""Showing progress: a bar on a terminal, lines elsewhere, TensorBoard where asked."""

from __future__ import annotations

import importlib
import sys
import time
from datetime import timedelta
from typing import Any, TextIO

from bihm_repro.errors import SetupError
from bihm_repro.progress import progress
from bihm_repro.training.extensions import Extension, MainLoop

__all__ = ["ProgressBar", "ProgressLines", "TensorBoard"]

WRITERS = ("torch.utils.tensorboard", "tensorboardX")


class ProgressBar(Extension):
    """A bar for each epoch: updates per second, time left, current and best metrics."""

    def __init__(self, examples: int) -> None:
        self.examples = examples
        self._bar: Any = None
        self._shown = 0

    def before_epoch(self, loop: MainLoop) -> None:
        """Open the bar of this epoch, at the batch where it is entered."""
        status = loop.log.status
        size = loop.phase.batch_size or loop.recipe.training.batch_size
        self._bar = progress(
            total=-(-self.examples // size),
            unit="update",
            desc=f"phase {status.phase + 1}/{len(loop.recipe.phases)} epoch {status.epoch + 1}",
        )
        self._bar.update(status.batch)
        self._shown = status.batch
        self._bar.set_postfix_str(metrics_line(loop))

    def after_batch(self, loop: MainLoop) -> None:
        """Move the bar on by the batches done since."""
        batch = loop.log.status.batch
        self._bar.update(batch - self._shown)
        self._shown = batch

    def between_epochs(self, loop: MainLoop) -> None:
        """Take the bar away."""
        self.close(loop)

    def close(self, loop: MainLoop) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class ProgressLines(Extension):
    """Prints a line for an epoch, at most one every ``seconds``, and for the ends of a phase."""

    def __init__(
        self, seconds: float = 5.0, stream: TextIO | None = None, clock: Any = time.monotonic
    ) -> None:
        """Print to ``stream``, standard output where none is given."""
        self.seconds, self.clock = seconds, clock
        self.stream = stream or sys.stdout
        self._last = float("-inf")
        self._updates, self._since = 0, clock()

    def before_phase(self, loop: MainLoop) -> None:
        """Say what the phase is about to do."""
        status, phase = loop.log.status, loop.phase
        self._updates, self._since = status.updates, self.clock()
        where = f", from update {status.updates}" if status.phase_updates else ""
        self._print(
            f"phase {status.phase + 1} of {len(loop.recipe.phases)}: K = {phase.samples}, "
            f"learning rate {phase.rate_at(status.phase_epoch):g}{where}"
        )

    def between_epochs(self, loop: MainLoop) -> None:
        """Say how the epoch went, where the last line is old enough or this one final."""
        now, status = self.clock(), loop.log.status
        if now - self._last < self.seconds and not (status.phase_stop or loop.log.pause):
            return
        speed = (status.updates - self._updates) / max(now - self._since, 1e-9)
        self._last, self._updates, self._since = now, status.updates, now
        self._print(
            f"epoch {status.epoch}, {status.updates} updates, {speed:.1f}/s, "
            f"{timedelta(seconds=int(loop.seconds))}: {metrics_line(loop)}"
        )

    def after_phase(self, loop: MainLoop) -> None:
        """Say why the phase has ended."""
        self._print(f"phase {loop.log.status.phase + 1} over: {loop.log.status.phase_stop}")

    def _print(self, line: str) -> None:
        print(line, file=self.stream, flush=True)


class TensorBoard(Extension):
    """Writes every metric of the log as a scalar, with whichever writer is installed."""

    def __init__(self, folder: str) -> None:
        self.writer = _writer(folder)

    def between_epochs(self, loop: MainLoop) -> None:
        """Write the row just completed, by updates."""
        row = loop.log.rows[-1]
        for name, value in row.items():
            if isinstance(value, (int, float)) and name not in ("phase", "epoch", "updates"):
                self.writer.add_scalar(name, value, row["updates"])

    def close(self, loop: MainLoop) -> None:
        """Close the log."""
        self.writer.close()


def metrics_line(loop: MainLoop) -> str:
    """Return the latest metrics and the best one, as -log p in nats."""
    status = loop.log.status
    parts = []
    row = loop.log.rows[-1] if loop.log.rows else {}
    for name, title in (("train_log_p", "train"), ("valid_log_p", "valid")):
        if row.get(name) is not None:
            parts.append(f"{title} {-row[name]:.3f}")
    if status.best_valid is not None:
        waited = status.epoch - max(status.best_epoch, status.phase_start)
        parts.append(
            f"best {-status.best_valid:.3f} (epoch {status.best_epoch}, "
            f"patience {waited}/{loop.phase.patience})"
        )
    return ", ".join(parts)


def _writer(folder: str) -> Any:
    for name in WRITERS:
        try:
            return importlib.import_module(name).SummaryWriter(folder)
        except ImportError:
            continue
    raise SetupError(
        "--tensorboard needs a package that writes TensorBoard logs: pip install tensorboardX"
    )

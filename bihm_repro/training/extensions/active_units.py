"""Active units while training: a column of the log, and a warning when a layer has none left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import numpy as np

from bihm_repro.estimators.active_units import layer_activity
from bihm_repro.models import registry
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.training.extensions import Extension, MainLoop

__all__ = ["ActiveUnits", "unit_counter"]


def unit_counter(
    model: Any, recipe: Recipe, examples: np.ndarray
) -> Callable[[], list[int]] | None:
    """Return a function that counts the active units of each layer; None where none can be."""
    kind = registry.kind(recipe.model.kind)
    if not (recipe.monitor.units_every and kind.can(registry.Capability.ACTIVE_UNITS)):
        return None
    return lambda: [
        layer.active
        for layer in layer_activity(model.get_values(), recipe.model, examples, recipe.seed)
    ]


class ActiveUnits(Extension):
    """Writes the active units of every ``every``-th epoch, from the data up: ``245 142 90``."""

    def __init__(
        self, count: Callable[[], Sequence[int]], every: int, stream: TextIO | None = None
    ) -> None:
        """Count with ``count()``; warnings go to ``stream``, standard error where not given."""
        self.count, self.every, self.stream = count, every, stream
        self._before: Sequence[int] = ()

    def after_epoch(self, loop: MainLoop) -> None:
        """Count where it is due."""
        epoch = loop.log.status.epoch + 1
        if epoch % self.every:
            return
        now = list(self.count())
        loop.log.row["active_units"] = " ".join(map(str, now))
        silent = [i + 1 for i, (old, new) in enumerate(zip(self._before, now)) if old and not new]
        self._before = now
        if silent:
            names = ", ".join(map(str, silent))
            print(
                f"warning: layer {names} has no active unit any more (epoch {epoch}); a lower "
                "rate, training.centred = true or L1 on fewer levels keeps upper layers in use",
                file=self.stream or sys.stderr,
                flush=True,
            )

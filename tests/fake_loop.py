"""A main loop that trains nothing, for the tests of extensions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.record import Status
from bihm_repro.training.log import TrainingLog

RECIPE = Recipe.from_dict(
    {
        "dataset": "bars",
        "model": {"layers": [2]},
        "phases": [
            {"samples": 5, "patience": 3, "max_epochs": 20, "learning_rate": 0.3},
            {"samples": 7},
            {"samples": 9},
        ],
    }
)


class FakeClock:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def make_loop(rows=(), **status):
    """A loop that only has what extensions look at."""
    values = {"w": np.zeros(2, np.float32)}
    model = SimpleNamespace(kind="bihm", layers=[2], data_dim=3, get_values=lambda: dict(values))
    log = TrainingLog(Status(**status), list(rows))
    log.row = {"epoch": log.status.epoch + 1}
    update = SimpleNamespace(counter=11, get_state=lambda: {"count": np.array(4)})
    return SimpleNamespace(
        model=model,
        recipe=RECIPE,
        log=log,
        best=None,
        update=update,
        phase=RECIPE.phases[log.status.phase],
        seconds=1.5,
    )

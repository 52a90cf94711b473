"""A run whose update is a plain function, so that hundreds can be trained and killed in a minute.

All that writes and reads the run folder is the package's own: lock, repair, claim, restore, main
loop, log and checkpoints, in the order of ``bihm train``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.log_file import log_columns
from bihm_repro.runs.record import source_commit
from bihm_repro.training.extensions import Extension
from bihm_repro.training.extensions.saving import Checkpoints, CsvLog
from bihm_repro.training.extensions.stopping import EpochLimit
from bihm_repro.training.main_loop import MainLoop
from tests.torture.harness import Failure

DATA = "the fingerprint of the data"


def make_recipe(seed: int, epochs: tuple[int, ...] = (2, 1)) -> Recipe:
    """Return a recipe with a phase for each of ``epochs``."""
    phases = [
        {"samples": 1, "learning_rate": 0.5 / (index + 1), "max_epochs": count}
        for index, count in enumerate(epochs)
    ]
    content = {"dataset": "none", "seed": seed, "model": {"layers": [2]}, "phases": phases}
    return Recipe.from_dict({**content, "monitor": {"checkpoint_seconds": 0}})


RECIPE, OTHER = make_recipe(1), make_recipe(2)


class _Model:
    kind, layers, data_dim = "bihm", (2,), 3

    def __init__(self, seed: int) -> None:
        self.w = np.full(3, seed, np.float32)

    def get_values(self) -> dict[str, np.ndarray]:
        return {"w": self.w.copy()}

    def set_values(self, values: Any) -> None:
        self.w = np.array(values["w"], dtype=np.float32)


class _Update:
    averages: dict[str, np.ndarray] = {}
    group_size = 1
    learning_rate = 0.0

    def __init__(self, model: _Model, draw: int) -> None:
        self.model, self.counter = model, draw
        self.mean = np.zeros(3)

    def steps(self, batches: list[np.ndarray]) -> list[dict[str, float]]:
        return [self._step(x) for x in batches]

    def _step(self, x: np.ndarray) -> dict[str, float]:
        self.counter += 3
        self.mean = 0.9 * self.mean + 0.1 * (x.sum() + math.sin(self.counter))
        self.model.w = (self.model.w + self.learning_rate * self.mean).astype(np.float32)
        return {"log_p": -float(x.sum())}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"mean": self.mean.copy()}

    def set_state(self, values: Any) -> None:
        self.mean = np.array(values["mean"])


class _Stream:
    def epoch(self, epoch: int, start: int = 0) -> Iterator[np.ndarray]:
        for batch in range(start, 2):
            yield np.full((2, 1), math.cos(7 * epoch + batch))


class _Best(Extension):
    """Keeps the best parameters by a number that goes up and down."""

    def after_epoch(self, loop: MainLoop) -> None:
        status, value = loop.log.status, math.sin(9.0 * float(loop.model.w[0]))
        loop.log.row["valid_log_p"] = value
        if status.best_valid is None or value > status.best_valid:
            status.best_valid, status.best_epoch = value, status.epoch + 1
            loop.best = loop.model.get_values()


def train(folder: Path, recipe: Recipe = RECIPE, fresh: bool = False, ready: Any = None) -> None:
    """Train in ``folder``, from what is there; ``ready`` is called when training goes on."""
    from bihm_repro.training.session import restore

    run, model = RunDirectory(folder), _Model(recipe.seed)
    if fresh:
        run.move_aside()
    with run.lock():
        run.repair()
        run.claim(recipe)
        run.check_data(DATA)
        if run.read_status().get("finished"):
            return
        facts = {"engine": "none", "data_fingerprint": DATA}
        extensions = [
            EpochLimit(),
            _Best(),
            CsvLog(run, log_columns(recipe)),
            Checkpoints(run, 0.0, facts),
        ]
        loop = MainLoop(
            model,
            recipe,
            lambda phase, draw: _Update(model, draw),
            lambda phase: _Stream(),
            extensions,
        )
        restore(loop, run, DATA)
        if ready is not None:
            ready()
        loop.run()


def end_state(folder: Path) -> dict[str, Any]:
    """Return what a finished run has left: all of it but the seconds."""
    run = RunDirectory(folder)
    status = run.read_status()
    status.pop("seconds", None)
    lines = run.file("log.csv").read_text().splitlines()
    column = lines[0].split(",").index("seconds")
    log = [cells[:column] + cells[column + 1 :] for cells in (line.split(",") for line in lines)]
    names = sorted(path.name for path in folder.iterdir())
    return {
        "files": names,
        "model": run.file("model.npz").read_bytes(),
        "status": status,
        "log": log,
        "recipe": run.file("recipe.toml").read_text(),
    }


def check_end(folder: Path, expected: dict[str, Any]) -> None:
    """Fail unless the run in ``folder`` ended as one that was never interrupted."""
    found = end_state(folder)
    for name, value in expected.items():
        if found[name] != value:
            raise Failure(f"{name} differs: {found[name]!r:.200} where {value!r:.200} is expected")


def references(folder: Path, *recipes: Recipe) -> dict[int, dict[str, Any]]:
    """Return the end states of the uninterrupted runs, by seed."""
    source_commit()  # asks git, once
    found = {}
    for recipe in recipes:
        path = folder / f"reference-{recipe.seed}"
        train(path, recipe)
        found[recipe.seed] = end_state(path)
    return found

"""What ``test_pytensor_engine`` runs under one engine, in that engine's own environment.

``python tests/engine_worker.py TASK FILE [TASK FILE ...]`` with the tasks

``train``      100 updates of a bars-sized model; parameters, a layer's samples and the figures of
               the last update go to FILE
``until:N``    train the run folder FILE until it has N epochs; it is made where it is not there
"""

from __future__ import annotations

import sys

import numpy as np

from bihm_repro.datasets.bars import draw_bars
from bihm_repro.engine.symbolic import T, function
from bihm_repro.models.build import build_model
from bihm_repro.recipes.recipe import ModelRecipe, Phase, Recipe, TrainingRecipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.training.extensions import Extension
from bihm_repro.training.session import Options, TrainingData, train
from bihm_repro.training.update import compile_update

LAYERS = (12, 6)
RECIPE = Recipe.from_dict(
    {
        "dataset": "bars",
        "seed": 3,
        "model": {"layers": list(LAYERS)},
        "training": {"batch_size": 50},
        "phases": [{"samples": 5, "learning_rate": 0.01, "max_epochs": 4}],
        "monitor": {"valid_samples": 5, "test_every": 0, "checkpoint_seconds": 0},
    }
)


class PauseAtEpoch(Extension):
    """Asks for a pause when the run has so many epochs."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def between_epochs(self, loop) -> None:
        if loop.log.status.epoch >= self.epochs:
            loop.log.request_pause("enough epochs")


def train_updates(path: str) -> None:
    model = build_model(ModelRecipe(layers=LAYERS), 16, seed=1)
    x, counter = T.matrix("x", dtype="float32"), T.lscalar("counter")
    sample = function([x, counter], model.infer(x, 5, 2, counter).layers[0])
    update = compile_update(model, TrainingRecipe(), Phase(samples=5), 7)
    batches = draw_bars(500, 0).reshape(10, 50, 16).astype(np.float32)
    first = np.array(sample(batches[0], 0))
    for number in range(100):
        figures = update(batches[number % 10])
    np.savez(
        path,
        first=first,
        last=sample(batches[0], 9),
        figures=list(figures.values()),
        **model.get_values(),
        **update.get_state(),
    )


def train_until(path: str, epochs: int) -> None:
    model = build_model(RECIPE.model, 16, RECIPE.seed)
    data = TrainingData(draw_bars(400, 0), draw_bars(100, 1), fingerprint="bars")
    run = RunDirectory(path)
    run.claim(RECIPE)
    with run.lock():
        train(model, RECIPE, data, run, Options(quiet=True, extensions=(PauseAtEpoch(epochs),)))


def main(arguments: list[str]) -> None:
    for task, path in zip(arguments[::2], arguments[1::2]):
        if task == "train":
            train_updates(path)
        else:
            train_until(path, int(task.split(":")[1]))


if __name__ == "__main__":
    main(sys.argv[1:])

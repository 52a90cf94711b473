"""The project's own update and estimators, compiled as `bihm train` and `bihm evaluate` do."""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.architectures import TINY, Case
from benchmarks.problem import (
    batches,
    gradient_reference,
    initial_parameters,
    relative_error,
)
from benchmarks.worker import main
from bihm_repro.engine.symbolic import T, function
from bihm_repro.models.build import build_model
from bihm_repro.ops.random_numbers import uniform
from bihm_repro.recipe import ModelRecipe, Phase, TrainingRecipe
from bihm_repro.training.update import compile_update

__all__ = ["Ours"]

SEED = 7


def _model(case: Case):
    model = build_model(ModelRecipe(layers=case.layers), case.data_dim)
    model.set_values(initial_parameters(case))
    return model


def _update(case: Case):
    """Take `count` steps of the compiled update."""
    update = compile_update(_model(case), TrainingRecipe(), Phase(samples=case.samples), SEED)
    data = batches(case, 8)

    def run(count: int) -> None:
        for number in range(count):
            update(data[number % len(data)])

    return run


class Ours:
    """The project as a contender, for all tasks."""

    def check(self) -> float:
        """Largest relative error of the gradients against numpy, on the tiny case."""
        model, x = _model(TINY), batches(TINY, 1)[0]
        given = T.matrix("x", dtype="float32")
        graph = model.training_graph(given, TINY.samples, SEED, np.int64(0))
        gradients = function([given], [graph.gradients[p] for p in model.parameters])(x)
        found = {p.name: gradient for p, gradient in zip(model.parameters, gradients)}
        rows = TINY.batch * TINY.samples
        draws = [
            uniform(SEED, layer, rows, units).reshape(TINY.batch, TINY.samples, units)
            for layer, units in enumerate(TINY.layers)
        ]
        return relative_error(found, gradient_reference(initial_parameters(TINY), x, draws)[0])

    def prepare(self, task: str, case: Case):
        """A function that runs `count` repetitions of the task."""
        if task == "update":
            return _update(case)
        raise ValueError(f"there is no task {task!r}")


if __name__ == "__main__":
    sys.exit(main(Ours))

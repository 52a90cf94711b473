"""The project's own update and estimators, compiled as `bihm train` and `bihm evaluate` do."""

from __future__ import annotations

import itertools
import os
import sys

import numpy as np

from benchmarks.architectures import TINY, Case
from benchmarks.problem import batches, gradient_reference, initial_parameters, relative_error
from benchmarks.worker import main
from bihm_repro.engine.symbolic import T, function
from bihm_repro.estimators.log_likelihood import estimate_log_likelihood
from bihm_repro.estimators.partition_function import LogZTerms, estimate_log_z2
from bihm_repro.estimators.streaming import LogWeights
from bihm_repro.models.build import build_model
from bihm_repro.ops.random_numbers import uniform
from bihm_repro.recipes.recipe import ModelRecipe, Phase, TrainingRecipe
from bihm_repro.training.main_loop import batch_groups
from bihm_repro.training.update import compile_update

__all__ = ["Ours"]

SEED = 7


def _model(case: Case):
    model = build_model(ModelRecipe(layers=case.layers), case.data_dim)
    model.set_values(initial_parameters(case))
    return model


def _update(case: Case):
    """Take `count` steps of the compiled update, in groups as the main loop does."""
    training = TrainingRecipe(centred=os.environ.get("BIHM_BENCH_CENTRED") == "1")
    update = compile_update(_model(case), training, Phase(samples=case.samples), SEED)
    data = batches(case, 8)

    def run(count: int) -> None:
        for group in batch_groups(itertools.islice(itertools.cycle(data), count), update):
            update.steps(group)

    return run


def _log_likelihood(case: Case):
    """Estimate the log-likelihood of `case.batch` examples with K samples each."""
    model, x = _model(case), batches(case, 1)[0]
    compiled = LogWeights(model, SEED)
    return lambda count: [
        estimate_log_likelihood(model, x, (case.samples,), log_weights=compiled)
        for _ in range(count)
    ]


def _log_z2(case: Case):
    """Estimate 2 log Z from `case.samples` outer samples with one inner sample each."""
    model = _model(case)
    compiled = LogZTerms(model, inner=1, seed=SEED)
    return lambda count: [
        estimate_log_z2(model, case.samples, log_terms=compiled) for _ in range(count)
    ]


TASKS = {"update": _update, "log_likelihood": _log_likelihood, "log_z2": _log_z2}


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
        return TASKS[task](case)


if __name__ == "__main__":
    sys.exit(main(Ours))

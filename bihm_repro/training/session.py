"""From a recipe, a model and data to a trained model: assembles the main loop and its extensions.

With a run folder, training is saved there and resumes from what is there; without one, it
happens in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bihm_repro.datasets.dataset import Dataset
from bihm_repro.datasets.streams import BatchStream
from bihm_repro.engine.notices import silence
from bihm_repro.engine.parallel import several_hosts
from bihm_repro.engine.symbolic import device_count, engine, version
from bihm_repro.errors import InputError
from bihm_repro.ops.random_numbers import seed_for
from bihm_repro.progress import say
from bihm_repro.recipes.recipe import Phase, Recipe
from bihm_repro.runs.checkpoint import divided
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.log_file import log_columns
from bihm_repro.training.extensions import Extension
from bihm_repro.training.extensions.active_units import ActiveUnits, unit_counter
from bihm_repro.training.extensions.display import ProgressBar, ProgressLines, TensorBoard
from bihm_repro.training.extensions.hosts import Agreement
from bihm_repro.training.extensions.monitoring import (
    BestSoFar,
    MetricsOnTestSet,
    Validation,
    compile_test_metrics,
    compile_validation,
)
from bihm_repro.training.extensions.restarting import RestartAbove, RestartDeadUnits
from bihm_repro.training.extensions.saving import Checkpoints, CsvLog
from bihm_repro.training.extensions.stopping import (
    EpochLimit,
    FiniteMetrics,
    Interruption,
    Patience,
    PauseAfter,
)
from bihm_repro.training.extensions.time_budget import SkippedPhases, TimeBudget
from bihm_repro.training.log import TrainingLog
from bihm_repro.training.main_loop import MainLoop
from bihm_repro.training.update import Update, compile_update

__all__ = ["TrainingData", "Options", "assemble", "log_odds", "restore", "train"]

RESTART_ROWS = 5000
"""Dead units are looked for on so many training rows."""


@dataclass(frozen=True)
class TrainingData:
    """The examples that training sees, each ``(n, data_dim)``, and their fingerprint."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray | None = None
    """Measured now and then where given; decides nothing."""
    fingerprint: str = ""
    binarize: bool = False
    """Whether ``train`` holds probabilities, to be sampled in each epoch."""
    image_shape: tuple[int, int] | None = None
    """Height and width, where examples are images."""

    @classmethod
    def of(cls, dataset: Dataset) -> TrainingData:
        """Return the splits of a data set."""
        splits = dataset.splits
        return cls(
            splits["train"],
            splits["valid"],
            splits["test"],
            dataset.fingerprint,
            dataset.grey,
            dataset.image_shape,
        )


@dataclass(frozen=True)
class Options:
    """How to run, as opposed to what: nothing here changes a number of an uncut run."""

    budget: float | None = None
    """Seconds for all phases together."""
    pause_after: float | None = None
    """Seconds after which to pause, in the middle of an epoch too."""
    tensorboard: str | None = None
    quiet: bool = False
    extensions: tuple[Extension, ...] = ()
    """Further extensions, called after the measuring ones and before a checkpoint."""


def train(
    model: Any,
    recipe: Recipe,
    data: TrainingData,
    run: RunDirectory | None = None,
    options: Options | None = None,
) -> TrainingLog:
    """Train ``model`` by ``recipe``, in or without a run folder; returns the log.

    The model ends with the parameters that were best on validation when all phases are over, and
    with the latest ones when training was paused.
    """
    options = options or Options()
    if recipe.model.visible_bias == "data" and not recipe.initial.fingerprint:
        model.set_values({**model.get_values(), "p0.b": log_odds(data.train)})
    with silence(options.quiet):
        loop = assemble(model, recipe, data, run, options)
        if run is not None:
            restore(loop, run, data.fingerprint)
        return loop.run()


def log_odds(examples: np.ndarray) -> np.ndarray:
    """Return the log-odds of each column's mean, with one pseudo-count of each value.

    >>> log_odds(np.array([[0, 1], [0, 1], [0, 1]])).round(3)
    array([-1.386,  1.386])
    """
    ones = examples.sum(axis=0, dtype=np.float64) + 1
    return np.log(ones) - np.log(len(examples) + 2 - ones)


def assemble(
    model: Any, recipe: Recipe, data: TrainingData, run: RunDirectory | None, options: Options
) -> MainLoop:
    """Put a main loop and its extensions together, to start from nothing."""
    return MainLoop(
        model,
        recipe,
        _compiler(model, recipe, data.image_shape),
        _streams(recipe, data),
        _extensions(model, recipe, data, run, options),
    )


def restore(loop: MainLoop, run: RunDirectory, data_fingerprint: str) -> None:
    """Restore ``loop`` from the last checkpoint of ``run``, if there is one."""
    checkpoint = run.read_state(loop.model.get_values())
    if checkpoint is None:
        return
    if checkpoint.record.get("data_fingerprint") != data_fingerprint:
        raise InputError(
            f"{run.path}: its training began on other data than those given now; "
            "bring those data back, or restart with --fresh"
        )
    loop.resume(TrainingLog.from_record(checkpoint.record), divided(checkpoint.arrays))


def _compiler(
    model: Any, recipe: Recipe, image_shape: tuple[int, int] | None
) -> Callable[[Phase, int], Update]:
    seed = seed_for(recipe.seed, "train")
    compiled: dict[tuple[Any, ...], Update] = {}

    def compile_phase(phase: Phase, counter: int) -> Update:
        key = phase.compiled_key
        if key in compiled:
            compiled[key].restart(counter)
        else:
            compiled[key] = compile_update(
                model, recipe.training, phase, seed, counter, image_shape
            )
        return compiled[key]

    return compile_phase


def _batch_size(recipe: Recipe, phase: Phase) -> int:
    size, devices = phase.batch_size or recipe.training.batch_size, device_count()
    if size % devices:
        fitting = -(-size // devices) * devices
        raise InputError(
            f"batch_size {size} does not divide by {devices} devices: use --devices "
            f"(or BIHM_DEVICES), or --set training.batch_size={fitting}"
        )
    return size


def _streams(recipe: Recipe, data: TrainingData) -> Callable[[Phase], BatchStream]:
    seed = seed_for(recipe.seed, "batches")
    return lambda phase: BatchStream(
        data.train, _batch_size(recipe, phase), seed=seed, binarize=data.binarize
    )


def _restart_rows(recipe: Recipe, data: TrainingData) -> Callable[[int], np.ndarray]:
    """Return the random training rows on which dead units are looked for, by epoch."""
    seed = seed_for(recipe.seed, "restart rows")
    stream = BatchStream(data.train, RESTART_ROWS, seed=seed, binarize=data.binarize)
    return lambda epoch: next(iter(stream.epoch(epoch)))


def _extensions(
    model: Any, recipe: Recipe, data: TrainingData, run: RunDirectory | None, options: Options
) -> list[Extension]:
    # Time limits start before anything is compiled: that time is the user's too.
    budget = None if options.budget is None else TimeBudget(options.budget, len(data.valid))
    pause = None if options.pause_after is None else PauseAfter(options.pause_after)
    monitor = recipe.monitor
    counts = {phase.valid_samples or monitor.valid_samples for phase in recipe.phases}
    measures = compile_validation(model, data.valid, counts, seed_for(recipe.seed, "valid"))
    extensions: list[Extension] = [
        FiniteMetrics(),
        EpochLimit(),
        Validation(measures, monitor.valid_samples, monitor.every),
        BestSoFar(),
    ]
    if data.test is not None and monitor.test_every:
        measure_test = compile_test_metrics(model, data.test, recipe)
        extensions.append(MetricsOnTestSet(measure_test, monitor.test_every))
    count_units = unit_counter(model, recipe, data.valid)
    if count_units is not None:
        extensions.append(ActiveUnits(count_units, monitor.units_every))
    report = (lambda line: None) if options.quiet else say
    if any(phase.restart_above for phase in recipe.phases):
        extensions.append(RestartAbove(report))
    if any(phase.restart_dead for phase in recipe.phases):
        extensions.append(RestartDeadUnits(_restart_rows(recipe, data), report))
    limits = [limit for limit in (budget, pause) if limit is not None]
    extensions += [Patience(), *limits, Interruption(), *options.extensions]
    if several_hosts():
        extensions.append(Agreement({"data": data.fingerprint, "engine": f"{engine} {version}"}))
    extensions += _output_extensions(recipe, data, run, options)
    if budget is not None and not several_hosts():
        extensions.append(SkippedPhases(budget, report))
    return extensions


def _output_extensions(
    recipe: Recipe, data: TrainingData, run: RunDirectory | None, options: Options
) -> list[Extension]:
    extensions: list[Extension] = []
    if not options.quiet:
        extensions += [ProgressBar(len(data.train)), ProgressLines()]
    if options.tensorboard:
        extensions.append(TensorBoard(options.tensorboard))
    if run is not None:
        facts = {"engine": f"{engine} {version}", "data_fingerprint": data.fingerprint}
        seconds, budget = recipe.monitor.checkpoint_seconds, options.budget is not None
        extensions += [
            CsvLog(run, log_columns(recipe)),
            Checkpoints(run, seconds, facts, self_contained=budget),
        ]
    return extensions

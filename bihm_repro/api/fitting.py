"""Training for the Python classes: from rows and a recipe to the best parameters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bihm_repro.api.arrays import as_binary
from bihm_repro.datasets.checks import fingerprint_of_splits
from bihm_repro.datasets.streams import fixed_sample
from bihm_repro.errors import InputError
from bihm_repro.ops.random_stream import RandomStream
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.layout import RunDirectory

__all__ = ["Trained", "hold_out", "train"]


class Trained(NamedTuple):
    """What training gives: parameters by name, the rows of the log, and how it ended.

    data_dim : the number of observed units, where it is known
    """

    values: dict[str, np.ndarray]
    rows: list[dict[str, Any]]
    data_dim: int = 0
    interrupted: bool = False


def hold_out(rows: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Divide ``rows`` at random into those to train on and a ``fraction`` for validation."""
    number = isinstance(fraction, (int, float)) and not isinstance(fraction, bool)
    if not number or not 0 < fraction < 1:
        raise InputError(f"valid_fraction is {fraction!r}: a number between 0 and 1 is needed")
    if len(rows) < 2:
        raise InputError("X holds n_samples = 1: at least 2 are needed, one of them to validate")
    count = min(len(rows) - 1, max(1, round(fraction * len(rows))))
    held = np.zeros(len(rows), dtype=bool)
    held[RandomStream(seed, "validation").choice(len(rows), count)] = True
    return rows[~held], rows[held]


def train(
    recipe: Recipe,
    rows: np.ndarray,
    valid: np.ndarray,
    callbacks: Sequence[Any],
    out: str | os.PathLike[str] | None,
    verbose: bool,
) -> Trained:
    """Train by ``recipe``; with ``out``, in that run folder, from where it was left.

    Grey levels are treated as by the command line: training rows are binarized again in each
    epoch, validation rows once.
    """
    grey = rows.dtype != np.uint8
    splits = {"train": rows, "valid": valid}
    fingerprint = fingerprint_of_splits(splits, binary=not grey and valid.dtype == np.uint8)
    if valid.dtype != np.uint8:
        valid = fixed_sample(valid, 1, "valid") if grey else as_binary(valid, "valid", "valid")
    if out is None:
        return _run(recipe, rows, valid, fingerprint, callbacks, None, verbose)
    run = RunDirectory(out)
    with run.lock():
        run.repair()
        with run.claimed(recipe):
            run.check_data(fingerprint)
            if not run.read_status().get("finished"):
                return _run(recipe, rows, valid, fingerprint, callbacks, run, verbose)
            log = run.read_log().to_dict("records")
            return Trained(dict(run.read_model()), log, rows.shape[1])


def _run(
    recipe: Recipe,
    rows: np.ndarray,
    valid: np.ndarray,
    fingerprint: str,
    callbacks: Sequence[Any],
    run: RunDirectory | None,
    verbose: bool,
) -> Trained:
    from bihm_repro.models.build import build_model
    from bihm_repro.training import session
    from bihm_repro.training.extensions import Extension

    class Observer(Extension):
        """Keeps the loop, and calls the callbacks after each epoch."""

        loop: Any = None
        stopped = False

        def before_training(self, loop: Any) -> None:
            self.loop = loop

        def between_epochs(self, loop: Any) -> None:
            if any([call(dict(loop.log.rows[-1])) is True for call in functions]):  # noqa: C419
                self.stopped = True
                loop.log.request_pause("a callback ended training")

    extensions = tuple(item for item in callbacks if isinstance(item, Extension))
    functions = [item for item in callbacks if not isinstance(item, Extension)]
    observer = Observer()
    model = build_model(recipe.model, rows.shape[1], recipe.seed)
    data = session.TrainingData(rows, valid, None, fingerprint, rows.dtype != np.uint8)
    options = session.Options(quiet=not verbose, extensions=(*extensions, observer))
    interrupted = False
    try:
        log = session.train(model, recipe, data, run, options)
        interrupted = bool(log.pause) and not observer.stopped
    except KeyboardInterrupt:  # the second Ctrl-C, or one outside the main thread
        if observer.loop is None:
            raise
        interrupted = True
    loop = observer.loop
    best = model.get_values() if loop.best is None else loop.best
    return Trained(dict(best), list(loop.log.rows), rows.shape[1], interrupted)

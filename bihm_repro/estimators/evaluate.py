"""The evaluation of a run: all metrics of ``evaluation.json``, each with its standard error."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bihm_repro.datasets.dataset import Dataset, load_dataset
from bihm_repro.errors import InputError
from bihm_repro.estimators.effective_sample_size import estimate_effective_sample_size
from bihm_repro.estimators.log_likelihood import estimate_log_likelihood
from bihm_repro.estimators.partition_function import estimate_log_z2
from bihm_repro.files import written_atomically
from bihm_repro.models.base import Model
from bihm_repro.models.build import build_model
from bihm_repro.models.registry import Capability
from bihm_repro.ops.random_numbers import seed_for
from bihm_repro.ops.random_stream import random_rows
from bihm_repro.recipes.recipe import EvaluationRecipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.parameters import Parameters
from bihm_repro.runs.record import source_commit

__all__ = ["evaluate_model", "evaluate_run", "stored_model", "write_z_trace"]


def stored_model(run: RunDirectory, values: Parameters | None = None) -> Model:
    """Return the run's best model, with the sizes that its recipe and arrays agree on.

    ``values`` are its parameters where they have been read already.
    """
    recipe, values = run.recipe, run.read_model() if values is None else values
    data_dim = values.meta.get("data_dim")
    try:
        if data_dim is None and np.ndim(values.get("q0.W", 0)) != 2:
            raise InputError("has no matrix q0.W, so this is not the model of a run")
        model = build_model(recipe.model, int(data_dim or values["q0.W"].shape[0]), recipe.seed)
        model.set_values(values)
    except InputError as error:
        raise InputError(f"{run.file('model.npz')}: {error}") from None
    return model


def evaluate_model(model: Model, x: np.ndarray, settings: EvaluationRecipe,
                   seed: int = 0) -> dict[str, Any]:
    """Return the metrics of ``evaluation.json`` that come from the model and ``x``."""
    result: dict[str, Any] = {}
    log_z2 = None
    if settings.z_samples and model.can(Capability.LOG_Z2):
        estimate = estimate_log_z2(model, settings.z_samples, inner=settings.z_inner, seed=seed)
        result["log_z2"], log_z2 = estimate.summary(), estimate.value
    metrics = estimate_log_likelihood(model, x, settings.samples, log_z2=log_z2, seed=seed)
    star = model.can(Capability.P_STAR)
    result["samples"] = {str(k): _without(value.summary(), () if star else ("log_p_tilde_star",))
                         for k, value in metrics.items()}
    if settings.ess_samples and not model.can(Capability.EXACT_LOG_P):
        rows = random_rows(x, settings.ess_examples, seed)
        ess = estimate_effective_sample_size(model, rows, settings.ess_samples, seed=seed)
        result["ess"] = _without(ess.summary(), () if star else ("p_star",))
    return result


def evaluate_run(run: RunDirectory, *, samples: Sequence[int] | None = None,
                 z_samples: int | None = None, z_inner: int | None = None,
                 ess_samples: int | None = None, ess_examples: int | None = None,
                 examples: int = 0, split: str = "test", seed: int = 0,
                 dataset: Dataset | None = None, write: bool = True) -> dict[str, Any]:
    """Evaluate the run's best model; what is None is taken from its recipe.

    ``examples`` evaluates on a random subset only (0: the whole split).
    """
    recipe, status = run.recipe, run.read_status()
    given: dict[str, Any] = {
        "samples": tuple(samples) if samples else None,
        "z_samples": z_samples,
        "z_inner": z_inner,
        "ess_samples": ess_samples,
        "ess_examples": ess_examples,
    }
    settings = replace(recipe.evaluation, **{k: v for k, v in given.items() if v is not None})
    parameters = run.read_model()
    model = stored_model(run, parameters)
    dataset = dataset or load_dataset(recipe.dataset)
    if split not in dataset.splits:
        raise InputError(f"split {split!r} is unknown: {dataset.name} has "
                         f"{', '.join(dataset.splits)}")
    run.check_data(dataset.fingerprint)
    x = random_rows(dataset.splits[split], examples, seed)
    start = time.perf_counter()
    result = {
        "dataset": dataset.name, "split": split, "n_examples": len(x), "seed": seed,
        "commit": source_commit(), "data_fingerprint": dataset.fingerprint,
        "data_exactness": dataset.exactness, "model_kind": recipe.model.kind,
        "layers": list(recipe.model.layers), "recipe_fingerprint": recipe.fingerprint(),
        "model_fingerprint": parameters.fingerprint, "updates": status.get("updates"),
        "finished": bool(status.get("finished")), **evaluate_model(model, x, settings, seed),
    }
    result["seconds"] = round(time.perf_counter() - start, 1)
    if write:
        run.write_evaluation(result)
    return result


def write_z_trace(run: RunDirectory, *, samples: int = 10**6, runs: int = 10,
                  inner: Sequence[int] = (1, 10, 100), seed: int = 0) -> None:
    """Write running estimates of 2 log Z, ``runs`` times for one inner sample: ``z_trace.csv``."""
    model = stored_model(run)
    rows = []
    for k_inner in inner:
        for number in range(runs if k_inner == 1 else 1):
            estimate = estimate_log_z2(model, max(2, samples // k_inner), inner=k_inner,
                                       seed=seed_for(seed, f"trace {number}"), trace=40)
            rows += [(number, k_inner, k_outer, value) for k_outer, value in estimate.trace]
    with written_atomically(run.file("z_trace.csv")) as path:
        with open(path, "w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle)
            writer.writerow(["run", "k_inner", "k_outer", "log_z2"])
            writer.writerows(rows)


def _without(metrics: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if name not in names}

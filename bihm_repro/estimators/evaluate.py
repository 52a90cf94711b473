"""The evaluation of a run: all metrics of ``evaluation.json``, each with its standard error."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bihm_repro import __version__
from bihm_repro.datasets.dataset import Dataset, load_dataset
from bihm_repro.engine.symbolic import engine, version
from bihm_repro.errors import InputError
from bihm_repro.estimators.active_units import layer_activity
from bihm_repro.estimators.annealing import estimate_log_z
from bihm_repro.estimators.blocks import Compute, Estimator, ProgressFiles, here, run_estimator
from bihm_repro.estimators.effective_sample_size import EffectiveSampleSizeEstimator
from bihm_repro.estimators.log_likelihood import LogLikelihoodEstimator
from bihm_repro.estimators.more_samples import powers_of_ten, with_more_samples
from bihm_repro.estimators.partition_function import LogZ2Estimator, estimate_log_z2
from bihm_repro.files import written_atomically
from bihm_repro.models.base import Model
from bihm_repro.models.build import build_model
from bihm_repro.models.registry import Capability
from bihm_repro.ops.random_numbers import seed_for
from bihm_repro.ops.random_stream import random_row_numbers, random_rows
from bihm_repro.recipes.recipe import EvaluationRecipe
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.parameters import Parameters
from bihm_repro.runs.record import source_commit

__all__ = ["Evaluation", "evaluate_run", "stored_model", "write_z_trace"]


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


def estimators_of(
    model: Model, x: np.ndarray, settings: EvaluationRecipe, seed: int = 0
) -> dict[str, Estimator]:
    """Return the estimators of an evaluation by their titles, in the order of their use."""
    found: list[Estimator] = []
    if settings.z_samples and model.can(Capability.LOG_Z2):
        found.append(LogZ2Estimator(model, settings.z_samples, settings.z_inner, seed))
    found.append(LogLikelihoodEstimator(model, x, settings.samples, seed))
    without_latents = model.can(Capability.EXACT_LOG_P) or model.can(Capability.LOG_Z)
    if settings.ess_samples and not without_latents:
        rows = random_rows(x, settings.ess_examples, seed)
        earlier = powers_of_ten(max(settings.samples), settings.ess_samples)
        found.append(
            EffectiveSampleSizeEstimator(model, rows, settings.ess_samples, seed, earlier=earlier)
        )
    return {estimator.title: estimator for estimator in found}


def evaluate_model(
    model: Model,
    x: np.ndarray,
    settings: EvaluationRecipe,
    seed: int = 0,
    compute: Compute = here,
    files: ProgressFiles | None = None,
) -> dict[str, Any]:
    """Return the estimates of ``evaluation.json`` that come from the model and ``x``.

    ``estimator_seconds`` are wall-clock seconds; of an evaluation that was interrupted, those
    since it continued.
    """
    found: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for title, estimator in estimators_of(model, x, settings, seed).items():
        start = time.perf_counter()
        found[title] = run_estimator(estimator, compute, files=files)
        seconds[title] = round(time.perf_counter() - start, 1)
    log_z2, ess = found.get(LogZ2Estimator.title), found.get(EffectiveSampleSizeEstimator.title)
    star = model.can(Capability.P_STAR)
    result: dict[str, Any] = {"log_z2": log_z2.summary()} if log_z2 else {}
    if settings.z_samples and model.can(Capability.LOG_Z):
        steps = max(1, settings.z_samples // 100)
        result["log_z"] = estimate_log_z(model, 100, steps, seed=seed).summary()
    result["samples"] = {
        str(k): _without(
            estimate.with_log_z2(log_z2.value if log_z2 else None).summary(),
            () if star else ("log_p_tilde_star",),
        )
        for k, estimate in found[LogLikelihoodEstimator.title].items()
    }
    if ess:
        result["ess"] = _without(ess.summary(), () if star else ("p_star",))
        rows = random_row_numbers(len(x), settings.ess_examples, seed)
        more = with_more_samples(found[LogLikelihoodEstimator.title], ess, rows, log_z2)
        result["more_samples"] = {
            k: _without(estimates, () if star else ("log_p_tilde_star",))
            for k, estimates in more.items()
        }
    result["estimator_seconds"] = seconds
    return result


@dataclass(frozen=True)
class Evaluation:
    """What to evaluate: all that the estimators follow from, so that a worker builds the same.

    The fingerprints are those of the parameters and of the data; a worker that finds others
    refuses them.
    """

    run: str
    settings: EvaluationRecipe
    split: str
    examples: int
    seed: int
    model_fingerprint: str
    data_fingerprint: str

    def rows(self, dataset: Dataset) -> np.ndarray:
        """Return the examples of ``dataset`` that are evaluated."""
        if dataset.fingerprint != self.data_fingerprint:
            raise InputError(f"{dataset.name}: these are other data than those of the evaluation")
        return random_rows(dataset.binary(self.split), self.examples, self.seed)

    def model(self) -> Model:
        """Return the model."""
        run = RunDirectory(self.run)
        parameters = run.read_model()
        if parameters.fingerprint != self.model_fingerprint:
            raise InputError(f"{run.file('model.npz')}: has changed since the evaluation began")
        return stored_model(run, parameters)

    def estimators(self, dataset: Dataset) -> dict[str, Estimator]:
        """Return the estimators by their titles."""
        return estimators_of(self.model(), self.rows(dataset), self.settings, self.seed)

    def files(self) -> ProgressFiles:
        """Return where the sums of an interrupted evaluation are kept: ``blocks/`` of the run."""
        facts = (self.model_fingerprint, self.data_fingerprint, self.split, self.examples,
                 self.seed, engine, version, __version__)  # fmt: skip
        return ProgressFiles(RunDirectory(self.run).file("blocks"), " ".join(map(str, facts)))


def evaluate_run(
    run: RunDirectory,
    *,
    examples: int = 0,
    split: str = "test",
    seed: int = 0,
    dataset: Dataset | None = None,
    write: bool = True,
    compute_for: Callable[[Evaluation], Compute] | None = None,
    **settings_given: Any,
) -> dict[str, Any]:
    """Evaluate the run's best model, by the settings of its recipe where others are not given.

    ``examples`` evaluates on a random subset only (0: the complete split). ``compute_for`` says how
    the blocks of an evaluation are computed, where not in this process. An evaluation that is to
    be written and was interrupted continues from the blocks that are done.
    """
    recipe, status = run.recipe, run.read_status()
    given = {name: value for name, value in settings_given.items() if value is not None}
    settings = replace(recipe.evaluation, **given)
    parameters = run.read_model()
    model = stored_model(run, parameters)
    dataset = dataset or load_dataset(recipe.dataset)
    if split not in dataset.splits:
        raise InputError(
            f"split {split!r} is unknown: {dataset.name} has {', '.join(dataset.splits)}"
        )
    run.check_data(dataset.fingerprint)
    evaluation = Evaluation(
        str(run.path), settings, split, examples, seed, parameters.fingerprint, dataset.fingerprint
    )
    x = evaluation.rows(dataset)
    files = evaluation.files() if write else None
    compute = compute_for(evaluation) if compute_for else here
    start = time.perf_counter()
    result = {
        "dataset": dataset.name,
        "split": split,
        "n_examples": len(x),
        "seed": seed,
        "commit": source_commit(),
        "data_fingerprint": dataset.fingerprint,
        "data_exactness": dataset.exactness,
        "model_kind": recipe.model.kind,
        "layers": list(recipe.model.layers),
        "recipe_fingerprint": recipe.fingerprint(),
        "model_fingerprint": parameters.fingerprint,
        "updates": status.get("updates"),
        "finished": bool(status.get("finished")),
        **evaluate_model(model, x, settings, seed, compute, files),
    }
    if layers := layer_activity(parameters, recipe.model, x, seed):
        result["active_units"] = [layer.active for layer in layers]
        result["information"] = [round(layer.information, 3) for layer in layers]
    result["seconds"] = round(time.perf_counter() - start, 1)
    if files:
        run.write_evaluation(result)
        files.remove()
    return result


def write_z_trace(
    run: RunDirectory,
    *,
    samples: int = 10**6,
    runs: int = 10,
    inner: Sequence[int] = (1, 10, 100),
    seed: int = 0,
) -> None:
    """Write running estimates of 2 log Z, ``runs`` times for one inner sample: ``z_trace.csv``."""
    model = stored_model(run)
    rows = []
    for k_inner in inner:
        for number in range(runs if k_inner == 1 else 1):
            estimate = estimate_log_z2(
                model,
                max(2, samples // k_inner),
                inner=k_inner,
                seed=seed_for(seed, f"trace {number}"),
                trace=40,
            )
            rows += [(number, k_inner, k_outer, value) for k_outer, value in estimate.trace]
    with written_atomically(run.file("z_trace.csv")) as path:
        with open(path, "w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle)
            writer.writerow(["run", "k_inner", "k_outer", "log_z2"])
            writer.writerows(rows)


def _without(metrics: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if name not in names}

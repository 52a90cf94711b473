"""The names of models in tables, and the run that represents each of them.

A method is a kind of model with its conditional distributions: ``BiHM``, ``BiHM-DARN`` (a BiHM
with a DARN layer), ``RWS-NADE``, ``NADE``; ``BiHM-sleep`` has a sleep term in q's gradient. A new
kind appears in the tables without a change here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from bihm_repro.errors import InputError
from bihm_repro.models import registry
from bihm_repro.runs.reader import Estimate, Run, main_run

__all__ = [
    "MNIST",
    "evaluation_of",
    "method_of",
    "method_run",
    "methods_in",
    "negative_log_likelihood",
    "nll_value",
    "without_samples",
]

MNIST = "binarized_mnist"
"""The MNIST set of the paper's Table 3, with fixed random pixels."""

LAYER_FIELDS = ("p_layer", "q_layer", "prior")


def _layer_types(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    values = value.values() if isinstance(value, dict) else value or ()
    return [name for part in values for name in _layer_types(part)]


def method_of(run: Run) -> str:
    """Return the title of a run's method, such as ``BiHM`` or ``RWS-NADE``."""
    try:
        title = registry.kind(run.kind).title
    except InputError:
        title = run.kind
    model = run.recipe.get("model", {})
    types = {name.upper() for field in LAYER_FIELDS for name in _layer_types(model.get(field))}
    others = sorted(name for name in types - {"BERNOULLI"} if name not in title.upper())
    sleep = ["sleep"] if run.recipe.get("training", {}).get("sleep") else []
    return "-".join([title, *others[-1:], *sleep])


def methods_in(runs: Iterable[Run]) -> list[str]:
    """Return the methods of the evaluated runs, each once, by name."""
    return sorted({method_of(run) for run in runs if run.evaluation is not None})


def method_run(
    runs: Sequence[Run], dataset: str, method: str, layers: Sequence[int] | None = None
) -> Run | None:
    """Return the evaluated run that represents a method on a data set; chosen on validation."""
    candidates = [run for run in runs if run.evaluation is not None and method_of(run) == method]
    kinds = dict.fromkeys(run.kind for run in candidates)
    found = (main_run(candidates, dataset, kind, layers) for kind in kinds)
    return next((run for run in found if run is not None), None)


def negative_log_likelihood(
    run: Run | None, quantity: str = "log_p", samples: int | None = None
) -> Estimate | None:
    """Return an estimate of a run with the sign of the paper's tables; None where it has none."""
    estimate = None if run is None else run.estimate(quantity, samples)
    return None if estimate is None else estimate.negated()


def nll_value(run: Run, quantity: str = "log_p", samples: int | None = None) -> float:
    """Return the value of such an estimate; NaN where the run has none."""
    estimate = negative_log_likelihood(run, quantity, samples)
    return math.nan if estimate is None else estimate.value


def evaluation_of(run: Run | None) -> dict[str, Any]:
    """Return the content of a run's evaluation.json; empty where there is none."""
    return {} if run is None else run.evaluation or {}


def without_samples(run: Run) -> bool:
    """Whether log p takes no samples of latents: it is exact (NADE), or known up to Z (RBM)."""
    able = registry.kind(run.kind).can
    return able(registry.Capability.EXACT_LOG_P) or able(registry.Capability.LOG_Z)

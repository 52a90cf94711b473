"""Whether an evaluation is up to date: of this model and data, with all that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bihm_repro.recipes.recipe import EvaluationRecipe

__all__ = ["answers", "is_up_to_date"]


def is_up_to_date(
    evaluation: Mapping[str, Any] | None, model_fingerprint: str, data_fingerprint: str
) -> bool:
    """Whether ``evaluation`` is of these parameters on the test split of these data."""
    names = ("model_fingerprint", "data_fingerprint", "split")
    expected = (model_fingerprint, data_fingerprint, "test")
    return evaluation is not None and tuple(evaluation.get(name) for name in names) == expected


def answers(evaluation: Mapping[str, Any], settings: EvaluationRecipe, examples: int) -> bool:
    """Whether ``evaluation`` has all that ``settings`` ask for on ``examples`` rows.

    More samples of 2 log Z than asked for will do, and more rows of the effective sample size;
    its K has to be the same, as the percentage depends on it. 2 log Z is asked of models that
    have a p*, whose evaluations have log p~*.
    """
    log_z2, ess = evaluation.get("log_z2", {}), evaluation.get("ess", {})
    star = any("log_p_tilde_star" in entries for entries in evaluation["samples"].values())
    ess_rows = min(settings.ess_examples or examples, examples)
    return (
        evaluation.get("n_examples") == examples
        and {str(k) for k in settings.samples} <= set(evaluation["samples"])
        and (
            not (star and settings.z_samples)
            or (
                log_z2.get("samples", 0) >= settings.z_samples
                and log_z2.get("inner", 1) == settings.z_inner
            )
        )
        and (
            not settings.ess_samples
            or (ess.get("samples") == settings.ess_samples and ess.get("examples", 0) >= ess_rows)
        )
    )

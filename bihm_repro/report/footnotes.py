"""Footnote marks: what a reader must know before comparing one of our numbers with another."""

from __future__ import annotations

from collections.abc import Iterable

from bihm_repro.datasets.info import SURROGATE
from bihm_repro.datasets.registry import DATASETS
from bihm_repro.report.methods import without_samples
from bihm_repro.runs.reader import Run

__all__ = ["comparable", "marks_of", "notes_for"]

SURROGATE_SPLIT = "†"
NOT_COMPARABLE = "‡"
UNFINISHED = "§"
FEWER_SAMPLES = "¶"
OTHER_PIXELS = "‖"
SUBSET = "◊"
SLEEP_PHASES = "¤"
PENALTIES = "°"
CONTINUED = "»"

NOTES = {
    SURROGATE_SPLIT: "web: the test rows are the published ones, but the published training and "
    "validation rows were divided at random, since their own division is not available.",
    NOT_COMPARABLE: "rcv1_surrogate: cut from the published validation rows (8,000 / 1,000 / "
    "1,000), not comparable with the paper's rcv1.",
    UNFINISHED: "training not finished (paused, or ended by a time budget): the best model so far.",
    FEWER_SAMPLES: "estimated with fewer than K = 1,000 samples, so the negative log-likelihood "
    "is an overestimate.",
    OTHER_PIXELS: "binarized here from the grey levels, not with the published random pixels: not "
    "strictly comparable.",
    SUBSET: "on a random subset of the test split.",
    SLEEP_PHASES: "in some phases of training q also learned from samples of p, by a sleep term "
    "that the paper's method does not have.",
    PENALTIES: "trained with a total variation penalty on the weights to the pixels, which the "
    "published method does not have.",
    CONTINUED: "started from the parameters of another run: updates are those since.",
}


def comparable(run: Run) -> bool:
    """Whether a difference from the paper's number means anything."""
    entry = DATASETS.get(run.dataset)
    return entry is None or entry.exactness != SURROGATE


def marks_of(run: Run | None) -> str:
    """Return the marks of a run's numbers, in the order of the notes; none without a run."""
    if run is None:
        return ""
    evaluation = run.evaluation or {}
    exactness = evaluation.get("data_exactness")
    entry, examples = DATASETS.get(run.dataset), evaluation.get("n_examples")
    conditions = {
        # An evaluation that does not say so used the surrogate division.
        SURROGATE_SPLIT: run.dataset == "web" and exactness != "exact",
        NOT_COMPARABLE: run.dataset == "rcv1_surrogate",
        UNFINISHED: not run.finished,
        FEWER_SAMPLES: run.sample_counts
        and run.sample_counts[-1] < 1000
        and not without_samples(run),
        OTHER_PIXELS: exactness == "not the published draw",
        SUBSET: entry is not None and examples is not None and examples < entry.sizes["test"],
        SLEEP_PHASES: any(phase.get("sleep") for phase in run.recipe.get("phases", ())),
        PENALTIES: any(
            part.get("total_variation")
            for part in (run.recipe.get("training", {}), *run.recipe.get("phases", ()))
        ),
        CONTINUED: run.continues_another,
    }
    return "".join(mark for mark, holds in conditions.items() if holds)


def notes_for(runs: Iterable[Run | None]) -> list[str]:
    """Return the notes of the marks that the evaluated runs of a table carry, each once."""
    carried = {mark for run in runs if run is not None and run.evaluation for mark in marks_of(run)}
    return [f"{mark} {note}" for mark, note in NOTES.items() if mark in carried]

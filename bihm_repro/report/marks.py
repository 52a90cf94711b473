"""The footnote marks: what a reader must know before comparing one of our numbers."""

from __future__ import annotations

from collections.abc import Iterable

from bihm_repro.datasets.catalogue import CATALOGUE
from bihm_repro.runs.reader import Run

__all__ = ["FEWER_SAMPLES", "NOT_COMPARABLE", "NOTES", "OTHER_DRAW", "SUBSET",
           "SURROGATE_SPLIT", "UNFINISHED", "comparable", "marks_of", "notes_for"]

SURROGATE_SPLIT = "†"
NOT_COMPARABLE = "‡"
UNFINISHED = "§"
FEWER_SAMPLES = "¶"
OTHER_DRAW = "‖"
SUBSET = "◊"

NOTES = {
    SURROGATE_SPLIT: "† web: the test rows are the published ones, but which of the published "
                     "training and validation rows train is a surrogate draw.",
    NOT_COMPARABLE: "‡ rcv1_surrogate: cut from the published validation rows "
                    "(8,000 / 1,000 / 1,000), not comparable with the paper's rcv1.",
    UNFINISHED: "§ training not finished (paused, or cut by a time budget): the best model so "
                "far.",
    FEWER_SAMPLES: "¶ estimated with fewer than K = 1,000 samples, so the negative "
                   "log-likelihood is an overestimate.",
    OTHER_DRAW: "‖ binarized here from the grey levels, not the published draw of the pixels: not "
                "strictly comparable.",
    SUBSET: "◊ on a random part of the test split.",
}


def comparable(run: Run) -> bool:
    """Whether a difference to the paper's number means anything."""
    return not run.dataset.endswith("_surrogate")


def marks_of(run: Run) -> str:
    """The marks that the numbers of a run carry, in the order of the notes."""
    marks = ""
    exactness = (run.evaluation or {}).get("data_exactness")
    # Without a word on it a web number is taken for one on the surrogate split.
    if run.dataset == "web" and exactness != "exact":
        marks += SURROGATE_SPLIT
    if not comparable(run):
        marks += NOT_COMPARABLE
    if not run.finished:
        marks += UNFINISHED
    if run.sample_counts and run.sample_counts[-1] < 1000:
        marks += FEWER_SAMPLES
    if exactness == "not the published draw":
        marks += OTHER_DRAW
    if _on_a_part(run):
        marks += SUBSET
    return marks


def _on_a_part(run: Run) -> bool:
    entry, examples = CATALOGUE.get(run.dataset), (run.evaluation or {}).get("n_examples")
    return entry is not None and examples is not None and examples < entry.sizes["test"]


def notes_for(runs: Iterable[Run | None]) -> list[str]:
    """The notes of the marks that the evaluated runs of a table carry, each once."""
    carried = {mark for run in runs if run is not None and run.evaluation for mark in marks_of(run)}
    return [note for mark, note in NOTES.items() if mark in carried]

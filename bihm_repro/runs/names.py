"""Names of runs: the folder of a recipe, and the run that represents a data set in the report."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bihm_repro.models.registry import DEFAULT

if TYPE_CHECKING:
    from bihm_repro.runs.reader import Run

__all__ = ["main_run", "run_name"]


def run_name(recipe_path: str | Path) -> str:
    """Return the name of a recipe's run folder: ``rws-mnist`` for run_exps/rws/mnist.toml."""
    parts = Path(recipe_path).with_suffix("").parts
    if "run_exps" in parts:
        start = len(parts) - parts[::-1].index("run_exps")
        return "-".join(parts[start:])
    return parts[-1]


def main_run(
    runs: Sequence[Run], dataset: str, kind: str, layers: Sequence[int] | None = None
) -> Run | None:
    """Choose the run that represents a data set and kind of model, without using the test set.

    In this order: evaluated runs before others, the plainly named one (``adult``, ``adult-rws``),
    the paper's ``layers``, the best validation log p, the first name.
    """

    def rank(run: Run) -> tuple[Any, ...]:
        best = run.status.get("best_valid")
        return (
            run.evaluation is None,
            run.name not in _plain_names(dataset, kind),
            layers is not None and run.layers != tuple(layers),
            math.inf if best is None else -float(best),
            _natural(run.name),
        )

    candidates = [run for run in runs if run.dataset == dataset and run.kind == kind]
    return min(candidates, key=rank, default=None)


def _plain_names(dataset: str, kind: str) -> tuple[str, ...]:
    short = {"binarized_mnist": "mnist", "mnist": "mnist-dynamic"}.get(dataset, dataset)
    if kind == DEFAULT:
        return (short, dataset, f"{short}-{kind}")
    return tuple(
        name
        for part in (short, dataset)
        for name in (f"{part}-{kind}", f"{kind}-{part}", f"{kind}/{part}")
    )


def _natural(name: str) -> list[tuple[int, Any]]:
    return [
        (0, int(part)) if part.isdecimal() else (1, part)
        for part in re.split(r"([0-9]{1,18})", name)
    ]

"""The run folders of ``results/`` as the report sees them, without the engine.

A run that is not finished, or not yet evaluated, is read as far as it goes; a folder that cannot
be read is left out and named on one line with the reason.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bihm_repro.errors import InputError
from bihm_repro.models.registry import DEFAULT
from bihm_repro.progress import printable
from bihm_repro.recipes.recipe import SECTIONS, Phase
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.log_file import read_csv

__all__ = ["Estimate", "Run", "main_run", "read_run", "read_runs", "seed_groups"]

NOT_ABOUT_TRAINING = ("title", "seed", "evaluation")
ADDED_LATER = {
    section: {item.name: item.default for item in fields(kind) if item.metadata.get("later")}
    for section, kind in {**SECTIONS, "phases": Phase}.items()
}
"""By section, the settings that older recipes do not have, with their defaults."""
MONITOR_WITHOUT_EFFECT = (
    "test_every",
    "test_samples",
    "test_examples",
    "z_samples",
    "checkpoint_seconds",
)


class Estimate(NamedTuple):
    """A value and its standard error (None where the file gives none)."""

    value: float
    standard_error: float | None = None

    def negated(self) -> Estimate:
        """The same estimate with the other sign: a log-likelihood as the paper prints it."""
        return Estimate(-self.value, self.standard_error)


@dataclass(eq=False)
class Run:
    """One run folder as plain values: ``recipe``, ``status``, ``evaluation`` (None before it)."""

    name: str
    path: Path
    recipe: dict[str, Any]
    status: dict[str, Any] = field(default_factory=dict)
    evaluation: dict[str, Any] | None = None

    @property
    def dataset(self) -> str:
        """The data set's name; of a path such as ``data/own.hdf5`` its stem."""
        return Path(str(self.recipe.get("dataset", "?"))).stem

    @property
    def kind(self) -> str:
        """The kind of the model, such as ``bihm``."""
        return str(self.recipe.get("model", {}).get("kind", DEFAULT))

    @property
    def layers(self) -> tuple[int, ...]:
        """Latent layer sizes from the data up."""
        return tuple(self.recipe.get("model", {}).get("layers", ()))

    @property
    def seed(self) -> int:
        """The recipe's seed."""
        return int(self.recipe.get("seed", 0))

    @property
    def finished(self) -> bool:
        """Whether all phases ended by their own rules before the model was evaluated."""
        ended = bool(self.status.get("finished")) and not self.status.get("cut_by_budget")
        return ended and bool((self.evaluation or {}).get("finished", True))

    @property
    def updates(self) -> int | None:
        """Updates made when the model was evaluated, or so far where that does not say."""
        recorded = (self.evaluation or {}).get("updates")
        return self.status.get("updates") if recorded is None else recorded

    @property
    def continues_another(self) -> bool:
        """Whether training started from the parameters of another run."""
        return bool(self.recipe.get("initial", {}).get("source"))

    @property
    def model_path(self) -> Path:
        """Where the parameters are."""
        return self.path / "model.npz"

    @cached_property
    def log(self) -> pd.DataFrame:
        """``log.csv``, one row per epoch; empty where there is none yet."""
        return read_csv(self.path / "log.csv")

    @cached_property
    def z_trace(self) -> pd.DataFrame:
        """``z_trace.csv``: run, k_inner, k_outer, log_z2; empty where it was not asked for."""
        return read_csv(self.path / "z_trace.csv")

    @property
    def validation_counts(self) -> pd.Series:
        """The number of samples K of each logged validation log p; a phase may have its own."""
        phases = self.recipe.get("phases", [])
        usual = self.recipe.get("monitor", {}).get("valid_samples", 10)
        own = dict(enumerate(phase.get("valid_samples", usual) for phase in phases))
        numbers = self.log.get("phase", pd.Series(0, self.log.index))
        return numbers.map(lambda number: own.get(number, usual))

    @property
    def sample_counts(self) -> tuple[int, ...]:
        """The numbers of samples K of the evaluation, ascending."""
        return tuple(sorted(int(k) for k in (self.evaluation or {}).get("samples") or {}))

    def estimate(self, quantity: str, samples: int | None = None) -> Estimate | None:
        """``log_p``, ``log_p_tilde_star`` or ``log_p_star`` at K (the largest where not given)."""
        if not self.sample_counts:
            return None
        samples = self.sample_counts[-1] if samples is None else samples
        return _estimate(self._estimates.get(str(samples), {}).get(quantity))

    @property
    def all_sample_counts(self) -> tuple[int, ...]:
        """Those of ``sample_counts``, and the K at which some of the examples were estimated."""
        return tuple(sorted(map(int, self._estimates)))

    @property
    def _estimates(self) -> dict[str, Any]:
        found = self.evaluation or {}
        return {**(found.get("more_samples") or {}), **(found.get("samples") or {})}

    @property
    def log_z2(self) -> Estimate | None:
        """The estimate of 2 log Z; None for models without one."""
        return _estimate((self.evaluation or {}).get("log_z2"))

    def ess(self, target: str) -> Estimate | None:
        """The effective sample size in percent of K for ``p_star`` or ``p``."""
        return _estimate(((self.evaluation or {}).get("ess") or {}).get(target))

    @property
    def recipe_without_seed(self) -> str:
        """What runs that differ in nothing but the seed have in common, as text."""
        kept = {key: value for key, value in self.recipe.items() if key not in NOT_ABOUT_TRAINING}
        if "monitor" in kept:
            kept["monitor"] = {
                key: value
                for key, value in kept["monitor"].items()
                if key not in MONITOR_WITHOUT_EFFECT
            }
        for section, later in ADDED_LATER.items():
            settings = kept.get(section)
            if isinstance(settings, list):
                kept[section] = [_without_defaults(one, later) for one in settings]
            elif settings is not None:
                kept[section] = _without_defaults(settings, later)
        return json.dumps({**kept, "dataset": self.dataset}, sort_keys=True, default=str)

    def recipe_without(self, section: str, setting: str) -> str:
        """What runs that differ in ``setting`` and in the seed alone have in common, as text."""
        recipe = json.loads(self.recipe_without_seed)
        recipe.get(section, {}).pop(setting, None)
        return json.dumps(recipe, sort_keys=True)


def _without_defaults(settings: Any, later: dict[str, Any]) -> Any:
    """Leave out the settings that have the default of ``later``."""
    if not isinstance(settings, dict):
        return settings
    return {
        name: value for name, value in settings.items() if name not in later or value != later[name]
    }


def _estimate(entry: Any) -> Estimate | None:
    if not isinstance(entry, dict) or entry.get("value") is None:
        return None
    error = entry.get("standard_error")
    return Estimate(float(entry["value"]), None if error is None else float(error))


def read_run(path: str | Path) -> Run:
    """Read one run folder; an InputError says which file is wrong and why.

    Its texts are escaped, so that they can go to a terminal or into a page.
    """
    folder = RunDirectory(path)
    run = Run(
        printable(folder.path.name),
        folder.path,
        _escaped(folder.recipe_content()),
        _escaped(folder.read_status()),
        _escaped(folder.read_evaluation()),
    )
    split = (run.evaluation or {}).get("split", "test")
    if split != "test":
        raise InputError(
            f"{folder.file('evaluation.json')}: field 'split' is {split!r}, the "
            f"report needs 'test'; run `bihm evaluate {folder.path}` again"
        )
    if run.model_path.exists():
        folder.read_model()
    _ = run.log, run.z_trace
    return run


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {printable(key): _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return printable(value) if isinstance(value, str) else value


def read_runs(results: str | Path) -> tuple[list[Run], list[str]]:
    """Read all run folders of ``results``; returns them by name, and a line for each unreadable.

    Folders that hold no file of a run (tables, figures, the gallery) are passed over.
    """
    results = Path(results)
    if not results.is_dir():
        raise InputError(
            f"{results}: no such folder; train something first (`bihm train "
            "run_exps/mushrooms.toml`), or give another with --results"
        )
    runs, complaints = [], []
    for path in _run_folders(results):
        try:
            name = printable(path.relative_to(results).as_posix())
            runs.append(replace(read_run(path), name=name))
        except (InputError, OSError) as error:
            complaints.append(printable(f"left out: {error}"))
    return runs, complaints


def _run_folders(results: Path, depth: int = 2) -> list[Path]:
    """Folders with a run's files, down to ``results/<group>/<run>``."""
    found = []
    for path in sorted(path for path in results.iterdir() if path.is_dir()):
        if path.name.startswith("."):
            continue
        if RunDirectory(path).exists:
            found.append(path)
        elif depth > 1:
            found += _run_folders(path, depth - 1)
    return found


def seed_groups(runs: Iterable[Run]) -> list[list[Run]]:
    """Group runs that differ in nothing but the seed; each group by seed, then name."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.recipe_without_seed, []).append(run)
    return [sorted(group, key=lambda run: (run.seed, run.name)) for group in groups.values()]


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

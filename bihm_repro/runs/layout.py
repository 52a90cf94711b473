"""The run folder ``results/<run>/``: its layout, and reading and writing it safely.

=====================  ========================================================================
recipe.toml            the frozen recipe, every setting written out
log.csv                one row per epoch, log-likelihoods in nats per example
model.npz              the parameters that were best on validation, and ``meta``, a JSON text
state.npz              all that resuming needs, but for the best parameters, which it names by
                       their fingerprint; absent when the run is finished
status.json            how far the run has come
evaluation.json        the estimates for the finished (or paused) model
=====================  ========================================================================

``state.previous.npz`` and ``model.previous.npz`` are what the last write replaced. A new best
model is written before the state that names it, so that the state on the disk finds its best
parameters in one of the two model files, at whatever moment the process is killed.

Everything here is read through :class:`RunDirectory`, which checks what it reads: whatever is wrong
with a file is an InputError of one line that names it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.files import (
    parse_toml,
    read_json,
    read_toml,
    sweep_temporaries,
    sync,
    write_json,
    write_text,
)
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.arrays import previous_of
from bihm_repro.runs.checkpoint import (
    Checkpoint,
    joined,
    read_checkpoint,
    state_headers,
    write_checkpoint,
)
from bihm_repro.runs.lock import locked
from bihm_repro.runs.log_file import csv_row, log_columns, log_rows, read_csv
from bihm_repro.runs.parameters import Parameters, read_parameters, write_parameters
from bihm_repro.runs.record import check_evaluation, check_recipe, check_state, check_status
from bihm_repro.runs.resume import contradictions, next_phase, place

if TYPE_CHECKING:
    import pandas

__all__ = ["RunDirectory", "run_name"]

RUN_FILES = (
    "recipe.toml",
    "log.csv",
    "model.npz",
    "state.npz",
    "state.previous.npz",
    "status.json",
    "evaluation.json",
)


def run_name(recipe_path: str | Path) -> str:
    """Return the name of a recipe's run folder: ``rws-mnist`` for run_exps/rws/mnist.toml."""
    parts = Path(recipe_path).with_suffix("").parts
    if "run_exps" in parts:
        start = len(parts) - parts[::-1].index("run_exps")
        return "-".join(parts[start:])
    return parts[-1]


class RunDirectory:
    """One run folder; nothing is created until something is written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Name the folder ``path``, which need not exist yet."""
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"

    def file(self, name: str) -> Path:
        """Return the path of the file ``name`` in this folder."""
        return self.path / name

    @property
    def exists(self) -> bool:
        """Whether the folder holds any file of a run."""
        return any(self.file(name).exists() for name in RUN_FILES)

    @property
    def has_state(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        path = self.file("state.npz")
        return path.exists() or previous_of(path).exists()

    # -- the recipe ---------------------------------------------------------------------------

    @property
    def recipe(self) -> Recipe:
        """The frozen recipe of the run."""
        if not self.file("recipe.toml").is_file():
            raise InputError(
                f"{self.path}: is not a run folder (it has no recipe.toml); "
                f"train one with: bihm train RECIPE --out {self.path}"
            )
        return Recipe.load(self.file("recipe.toml"))

    def recipe_content(self) -> dict[str, Any]:
        """Return the frozen recipe as it is written, for the report.

        It may have settings, and names of layer types, that only another version knows.
        """
        path = self._present("recipe.toml")
        return _checked(read_toml(path), check_recipe, path)

    def write_recipe(self, recipe: Recipe) -> None:
        """Freeze ``recipe`` in this folder, once its text has been read back."""
        path, text = self.file("recipe.toml"), recipe.to_toml()
        if Recipe.from_dict(parse_toml(text, str(path)), str(path)) != recipe:
            raise InputError(f"{path}: the recipe cannot be written as TOML and read back")
        write_text(path, text)

    def claim(self, recipe: Recipe, extend: bool | None = None) -> None:
        """Make this the folder of ``recipe``; refuse where it holds a run of another one.

        With ``extend`` the recipe may differ in what the run has not trained yet; False says that
        this could have been asked for.
        """
        if self.exists and not self.file("recipe.toml").is_file():
            raise InputError(
                f"{self.path}: holds files of a run but no recipe.toml; choose "
                "another folder with --out, or replace it with --fresh"
            )
        if self.exists and self.recipe.fingerprint() != recipe.fingerprint():
            self._check_change(recipe, extend)
        self.write_recipe(recipe)

    @contextmanager
    def claimed(self, recipe: Recipe, extend: bool | None = None) -> Iterator[None]:
        """Claim the folder; where the block refuses its input, a new folder is as it was before."""
        new = not self.exists
        self.claim(recipe, extend)
        try:
            yield
        except (InputError, MemoryError):
            if new and not self.file("model.npz").exists() and not self.has_state:
                for name in ("recipe.toml", "log.csv", "status.json"):
                    self.file(name).unlink(missing_ok=True)
            raise

    def _check_change(self, recipe: Recipe, extend: bool | None) -> None:
        differences = self.recipe.differences(recipe)
        ways = "choose another folder with --out, or replace it with --fresh"
        if extend is not None:
            status = self._progress()
            refused = contradictions(self.recipe, recipe, status)
            if extend and not refused:
                return
            if extend:
                differences = refused
                ways = (
                    f"--extend changes only what is not trained yet, and the run "
                    f"{place(status)}: {ways}"
                )
            elif not refused:
                ways = f"continue with this recipe by --extend, {ways}"
        raise InputError(
            f"{self.path}: holds a run of another recipe ({'; '.join(differences[:3])}); {ways}"
        )

    def check_data(self, fingerprint: str) -> None:
        """Refuse other data than the run was trained on."""
        if self.read_status().get("data_fingerprint", fingerprint) != fingerprint:
            raise InputError(
                f"{self.path}: was trained on other data than those given now; bring "
                "those data back, or restart: with another --out, or with --fresh"
            )

    def _progress(self) -> dict[str, Any]:
        """How far the run has come: by its state, from which it resumes, else by status.json."""
        checkpoint = self.read_state()
        return self.read_status() if checkpoint is None else checkpoint.record.get("status", {})

    # -- the log ------------------------------------------------------------------------------

    def read_log(self) -> pandas.DataFrame:
        """Read log.csv; cells that were not measured are NaN. Empty where there is none yet."""
        return read_csv(self.file("log.csv"))

    def write_log(self, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Write log.csv with a header and ``rows``."""
        lines = [",".join(columns), *(csv_row(columns, row) for row in rows)]
        write_text(self.file("log.csv"), "\n".join(lines) + "\n")

    def append_to_log(self, columns: Sequence[str], row: Mapping[str, Any]) -> None:
        """Add one row to log.csv; an incomplete row left by a kill is repaired on resumption."""
        with open(self.file("log.csv"), "a", encoding="utf-8") as handle:
            handle.write(csv_row(columns, row) + "\n")

    # -- parameters ---------------------------------------------------------------------------

    def read_model(self) -> Parameters:
        """Read the best parameters, by name, with their ``meta`` and ``fingerprint``."""
        return read_parameters(self._present("model.npz"))

    def write_model(
        self, values: Mapping[str, np.ndarray], meta: Mapping[str, Any], keep: bool = False
    ) -> None:
        """Write the best parameters, by name, with a JSON record of what they are.

        With ``keep``, those that were there become ``model.previous.npz``.
        """
        path = self.file("model.npz")
        write_parameters(path, values, meta, previous_of(path) if keep else None)

    # -- state, status, evaluation ------------------------------------------------------------

    def read_state(self, parameters: Mapping[str, np.ndarray] | None = None) -> Checkpoint | None:
        """Read the last usable checkpoint, with its best parameters, or None if there is none.

        ``parameters`` are those of the model; a state whose arrays have other names or shapes is
        not usable. Nor is one whose best parameters are nowhere to be found.
        """
        phases = len(self.recipe.phases) if self.file("recipe.toml").is_file() else None

        def check(checkpoint: Checkpoint) -> None:
            check_state(checkpoint.record, phases)
            for name, value in checkpoint.arrays.items():
                if not np.isfinite(value).all():
                    raise InputError(f"array {name} holds values that are not finite")
            self._add_best(checkpoint)

        return read_checkpoint(self.file("state.npz"), state_headers(parameters), check)

    def _add_best(self, checkpoint: Checkpoint) -> None:
        """Add the best parameters that the state names by their fingerprint, as ``best/...``."""
        wanted, path = checkpoint.record.get("best"), self.file("model.npz")
        if not wanted or any(name.startswith("best/") for name in checkpoint.arrays):
            return
        for candidate in (path, previous_of(path)):
            try:
                found = read_parameters(candidate)
            except (InputError, FileNotFoundError):
                continue
            if found.fingerprint == wanted:
                checkpoint.arrays.update({f"best/{name}": found[name] for name in found})
                return
        raise InputError(f"its best parameters, {wanted[:12]}, are not in {path.name}")

    def write_state(self, arrays: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> None:
        """Write a checkpoint, keeping the one before it."""
        write_checkpoint(self.file("state.npz"), arrays, record)

    def remove_state(self) -> None:
        """Remove what only resuming needs, once the log, its other copy, is on the disk."""
        if self.file("log.csv").exists():
            sync(self.file("log.csv"))
        for path in (
            self.file("state.npz"),
            previous_of(self.file("state.npz")),
            previous_of(self.file("model.npz")),
        ):
            path.unlink(missing_ok=True)
        sync(self.path)

    def repair(self) -> None:
        """Finish what a killed process left undone: temporary files, the state of a finished run.

        Call it with the lock held.
        """
        sweep_temporaries(self.path)
        if self.has_state and self.read_status().get("finished"):
            with suppress(InputError):  # a damaged state is of no use to a finished run
                state = self.read_state()
                if state is not None:
                    if not state.record.get("status", {}).get("finished"):
                        return  # killed while it was reopened
                    self.write_log(log_columns(self.recipe), state.record.get("rows", []))
            self.remove_state()

    def reopen(self) -> None:
        """Let a finished run continue where its recipe has further phases.

        They start as they would have if the recipe had always had them: from the best parameters.
        Call it with the lock held.
        """
        status = self.read_status()
        start = next_phase(status, len(self.recipe.phases))
        if start is None:
            return
        if not self.has_state:
            model = self.read_model()
            record = {
                "status": asdict(start),
                "rows": log_rows(self.read_log()),
                "best": model.fingerprint,
                "data_fingerprint": status.get("data_fingerprint", ""),
            }
            self.write_state(joined({"parameter": {name: model[name] for name in model}}), record)
        self.write_status({**status, "finished": False, "phase": start.phase})

    def read_status(self) -> dict[str, Any]:
        """Read status.json; empty where the run has not come that far."""
        return self._read_json("status.json", check_status) or {}

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Write status.json."""
        write_json(self.file("status.json"), dict(status))

    def read_evaluation(self) -> dict[str, Any] | None:
        """Read evaluation.json, or None where the run has not been evaluated."""
        return self._read_json("evaluation.json", check_evaluation)

    def write_evaluation(self, evaluation: Mapping[str, Any]) -> None:
        """Write evaluation.json."""
        write_json(self.file("evaluation.json"), dict(evaluation))

    # -- one process at a time ----------------------------------------------------------------

    def lock(self) -> AbstractContextManager[None]:
        """Hold the folder for this process; the lock goes with the process, however it ends."""
        return locked(self.path)

    def move_aside(self) -> Path | None:
        """Rename the folder to ``.replaced/<run>-<n>`` beside it; None where it holds no run.

        It is renamed in one step, so that a kill leaves all of it here or all of it there.
        """
        if not self.exists:
            return None
        path = self.path.resolve()
        with self.lock():
            replaced = path.parent / ".replaced"
            replaced.mkdir(exist_ok=True)
            number = 1
            while (target := replaced / f"{path.name}-{number}").exists():
                number += 1
            os.rename(path, target)
            sync(replaced)
            sync(path.parent)
        return target

    def _present(self, name: str) -> Path:
        path = self.file(name)
        if not path.is_file():
            raise InputError(
                f"{path}: is missing; train the run with: bihm train RECIPE --out {self.path}"
            )
        return path

    def _read_json(
        self, name: str, check: Callable[[Mapping[str, Any]], None]
    ) -> dict[str, Any] | None:
        path = self.file(name)
        if not path.exists():
            return None
        fix = f"; run `bihm evaluate {self.path}` again" if name == "evaluation.json" else ""
        return _checked(read_json(path), check, path, fix)


def _checked(
    content: dict[str, Any], check: Callable[[Mapping[str, Any]], None], path: Path, fix: str = ""
) -> dict[str, Any]:
    try:
        check(content)
    except InputError as error:
        raise InputError(f"{path}: {error}{fix}") from None
    return content

"""The run folder ``results/<run>/``: its layout, and reading and writing it safely.

=====================  ========================================================================
recipe.toml            the frozen recipe, every setting written out
log.csv                a row an epoch, log-likelihoods in nats per example
model.npz              the parameters that were best on validation, and ``meta``, a JSON text
state.npz              all that going on needs; written whole, the one before it kept beside it;
                       gone when the run is finished
status.json            how far the run has come
evaluation.json        the figures of the finished (or paused) model
=====================  ========================================================================
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bihm_repro.errors import InputError
from bihm_repro.files import write_json, write_text
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.checkpoint import (
    Checkpoint,
    previous_of,
    read_arrays,
    read_checkpoint,
    write_arrays,
    write_checkpoint,
)
from bihm_repro.runs.resume import contradictions, place

if TYPE_CHECKING:
    import pandas

__all__ = ["RunDirectory", "log_columns", "source_commit"]

META = "meta"


class RunDirectory:
    """One run folder; nothing is created until something is written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Name the folder ``path``, which need not exist yet."""
        self.path = Path(path)

    def __repr__(self) -> str:
        """Show the path."""
        return f"RunDirectory({str(self.path)!r})"

    def file(self, name: str) -> Path:
        """Return the path of the file ``name`` in this folder."""
        return self.path / name

    @property
    def exists(self) -> bool:
        """Whether the folder holds a run, that is, a frozen recipe."""
        return self.file("recipe.toml").is_file()

    # -- the recipe ---------------------------------------------------------------------------

    @property
    def recipe(self) -> Recipe:
        """The frozen recipe of the run."""
        if not self.exists:
            raise InputError(f"{self.path}: is not a run folder (it has no recipe.toml); "
                             f"train one with: bihm train RECIPE --out {self.path}")
        return Recipe.load(self.file("recipe.toml"))

    def write_recipe(self, recipe: Recipe) -> None:
        """Freeze ``recipe`` in this folder."""
        write_text(self.file("recipe.toml"), recipe.to_toml())

    def claim(self, recipe: Recipe, extend: bool | None = None) -> None:
        """Make this the folder of ``recipe``; refuse where it holds a run of another one.

        With ``extend`` the recipe may differ in what an unfinished run has still ahead; False says
        that this could have been asked for.
        """
        if self.exists and self.recipe.fingerprint() != recipe.fingerprint():
            self._check_change(recipe, extend)
        self.write_recipe(recipe)

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
                ways = f"--extend changes only what lies ahead, and the run {place(status)}: {ways}"
            elif not refused:
                ways = f"go on by this recipe with --extend, {ways}"
        raise InputError(f"{self.path}: holds a run of another recipe "
                         f"({'; '.join(differences[:3])}); {ways}")

    def check_data(self, fingerprint: str) -> None:
        """Refuse other data than the run was trained on."""
        if self.read_status().get("data_fingerprint", fingerprint) != fingerprint:
            raise InputError(f"{self.path}: was trained on other data than those given now; bring "
                             "those data back, or train anew: with another --out, or with --fresh")

    def discard_claim(self) -> None:
        """Take back a claim that came to nothing: remove what a run without an update has."""
        if not self.file("model.npz").exists() and not self.file("state.npz").exists():
            for name in ("recipe.toml", "log.csv", "status.json"):
                self.file(name).unlink(missing_ok=True)

    def _progress(self) -> dict[str, Any]:
        """How far the run has come: by its state, from which it goes on, else by status.json."""
        checkpoint = self.read_state()
        return self.read_status() if checkpoint is None else checkpoint.record["status"]

    # -- the log ------------------------------------------------------------------------------

    def read_log(self) -> pandas.DataFrame:
        """Read log.csv; cells that were not measured are NaN."""
        import pandas
        return pandas.read_csv(self._present("log.csv"))

    def write_log(self, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Write log.csv anew, with a header and ``rows``."""
        lines = [",".join(columns), *(_csv_row(columns, row) for row in rows)]
        write_text(self.file("log.csv"), "\n".join(lines) + "\n")

    def append_to_log(self, columns: Sequence[str], row: Mapping[str, Any]) -> None:
        """Add one row to log.csv; a row half written by a crash is mended on resumption."""
        with open(self.file("log.csv"), "a", encoding="utf-8") as handle:
            handle.write(_csv_row(columns, row) + "\n")

    # -- parameters ---------------------------------------------------------------------------

    def read_model(self) -> dict[str, np.ndarray]:
        """Read the best parameters, by name."""
        arrays = read_arrays(self._present("model.npz"))
        arrays.pop(META, None)
        return arrays

    def read_model_meta(self) -> dict[str, Any]:
        """Read what model.npz says of itself: kind, layers, data_dim, recipe_fingerprint."""
        arrays = read_arrays(self._present("model.npz"))
        return json.loads(str(arrays[META][()])) if META in arrays else {}

    def model_fingerprint(self) -> str:
        """Return the SHA-256 of the best parameters, names and values."""
        digest = hashlib.sha256()
        for name, value in sorted(self.read_model().items()):
            digest.update(f"{name} {value.dtype.str} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        return digest.hexdigest()

    def write_model(self, values: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
        """Write the best parameters, by name, with a JSON record of what they are."""
        write_arrays(self.file("model.npz"), {**values, META: np.array(json.dumps(meta))})

    # -- state, status, evaluation ------------------------------------------------------------

    def read_state(self) -> Checkpoint | None:
        """Read the last whole checkpoint, or None where there is none."""
        return read_checkpoint(self.file("state.npz"))

    def write_state(self, arrays: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> None:
        """Write a checkpoint, keeping the one before it."""
        write_checkpoint(self.file("state.npz"), arrays, record)

    def remove_state(self) -> None:
        """Drop the checkpoints, when the run needs them no more."""
        for path in (self.file("state.npz"), previous_of(self.file("state.npz"))):
            path.unlink(missing_ok=True)

    def read_status(self) -> dict[str, Any]:
        """Read status.json; empty where the run has not come that far."""
        return self._read_json("status.json") or {}

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Write status.json."""
        write_json(self.file("status.json"), dict(status))

    def read_evaluation(self) -> dict[str, Any] | None:
        """Read evaluation.json, or None where the run has not been evaluated."""
        return self._read_json("evaluation.json")

    def write_evaluation(self, evaluation: Mapping[str, Any]) -> None:
        """Write evaluation.json."""
        write_json(self.file("evaluation.json"), dict(evaluation))

    # -- one process at a time ----------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for this process; the lock goes with the process, however it ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.file(".lock"), "a+", encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                holder = handle.read().strip() or "unknown"
                raise InputError(f"{self.path}: process {holder} is working on this run folder; "
                                 "wait until it ends, or choose another with --out") from None
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            yield

    def move_aside(self) -> Path | None:
        """Move the folder's content to ``.replaced/<run>-<n>`` beside it; None where empty."""
        if not self.exists:
            return None
        number = 1
        while (target := self.path.parent / ".replaced" / f"{self.path.name}-{number}").exists():
            number += 1
        target.mkdir(parents=True)
        for item in sorted(self.path.iterdir()):
            if item.name != ".lock":
                os.replace(item, target / item.name)
        return target

    def _present(self, name: str) -> Path:
        path = self.file(name)
        if not path.is_file():
            raise InputError(f"{path}: is missing; train the run with: "
                             f"bihm train RECIPE --out {self.path}")
        return path

    def _read_json(self, name: str) -> dict[str, Any] | None:
        path = self.file(name)
        if not path.is_file():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise InputError(f"{path}: is not valid JSON ({error})") from None


def log_columns(recipe: Recipe) -> list[str]:
    """Return the columns of log.csv for ``recipe``."""
    columns = ["phase", "epoch", "updates", "seconds", "learning_rate", "samples", "train_log_p",
               "train_log_p_tilde_star", "valid_log_p", "valid_log_p_tilde_star", "valid_bound",
               "best"]
    ks = recipe.monitor.test_samples
    columns += [f"test_log_p_{k}" for k in ks]
    columns += [f"test_log_p_tilde_star_{k}" for k in ks]
    return [*columns, "log_z2"]


@functools.lru_cache(maxsize=1)
def source_commit() -> str:
    """Return the commit of the source tree, or "" outside a repository."""
    try:
        answer = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent,
                                capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


def _csv_row(columns: Sequence[str], row: Mapping[str, Any]) -> str:
    return ",".join(_cell(row.get(name)) for name in columns)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else repr(value)

"""A fault at every file operation of a run that saves after every update; then it is resumed.

The resumed run must end with the same bytes as one that was never interrupted. Half of the cases
restart a run that is there (``--fresh``) with another recipe, and repeat the command without it:
the old run is still there and refused, or the new one ends as it should.
"""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bihm_repro.errors import InputError
from bihm_repro.runs.layout import RunDirectory
from tests.torture.faults import DIED, MODES, Faults
from tests.torture.harness import Case, Failure, Group, in_child
from tests.torture.training import OTHER, RECIPE, check_end, references, train


class Prepared(NamedTuple):
    """The uninterrupted runs, a paused one, and the numbers of operations of both scenarios."""

    expected: dict[int, dict[str, Any]]
    paused: Path
    operations: tuple[int, int]


def _with_faults(folder: Path, at: int | None, mode: str, restart: bool) -> Any:
    faults = Faults(folder, at, mode)
    faults.install()
    train(folder / "run", OTHER if restart else RECIPE, fresh=restart)
    return faults.count


def _count(folder: Path, restart: bool) -> int:
    def work() -> None:
        (folder / "count").write_text(str(_with_faults(folder, None, "exit", restart)))

    status, text = in_child(work)
    if status or text:
        raise Failure(f"counting operations: {status} {text}")
    number = int((folder / "count").read_text())
    shutil.rmtree(folder / "run")
    return number


def _prepare(folder: Path) -> Prepared:
    expected, paused = references(folder, RECIPE, OTHER), folder / "paused"
    in_child(partial(_with_faults, paused, 200, "exit", False))
    if not RunDirectory(paused / "run").has_state:
        raise Failure("the run to be replaced has no state")
    scratch = folder / "scratch"
    shutil.copytree(paused, scratch)
    restarted = _count(scratch, True)
    return Prepared(expected, paused, (_count(folder / "scratch", False), restarted))


def _attack(prepared: Prepared, case: Case) -> str:
    restart = bool(case.number % 2)
    total = prepared.operations[restart]
    index = case.number // 2
    mode = MODES[index % len(MODES)]
    # Steps of a prime: every operation in turn, spread over the run from the first case on.
    at = 1 + index // len(MODES) * 101 % total
    if restart:
        shutil.copytree(prepared.paused, case.folder, dirs_exist_ok=True)
    points = [at] if index < len(MODES) * total else [at, case.random.randint(1, total)]
    for point in points:
        work = partial(_with_faults, case.folder, point, mode, restart)
        _check_ending(mode, *in_child(work))
        case.counts[f"{mode} at an operation"] += 1
    _resume(prepared, case, restart)
    return "resumed"


def _check_ending(mode: str, status: int, text: str) -> None:
    died = os.WIFEXITED(status) and os.WEXITSTATUS(status) == DIED
    if mode in ("exit", "power"):
        fine = died or (status == 0 and not text)
    else:
        fine = status == 0 and (not text or text.startswith("OSError"))
    if not fine:
        raise Failure(f"with {mode}, the run ended with status {status}: {text}")


def _resume(prepared: Prepared, case: Case, restart: bool) -> None:
    folder, recipe = case.folder / "run", OTHER if restart else RECIPE
    try:
        train(folder, recipe)
    except InputError:
        old = RunDirectory(folder)
        if not restart or old.recipe != RECIPE or old.read_state() is None:
            raise
        train(folder, RECIPE)
        recipe = RECIPE
    check_end(folder, prepared.expected[recipe.seed])


GROUP = Group("crashes", 1.5, _prepare, _attack)

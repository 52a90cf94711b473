"""Runs resumed from forged states: refused on one line, or trained to the end."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np

from bihm_repro.runs.arrays import read_arrays, write_arrays
from bihm_repro.runs.layout import RunDirectory
from tests.torture.crashes import _with_faults
from tests.torture.harness import Case, Group, in_child
from tests.torture.mutations import mutated_bytes, mutated_json
from tests.torture.training import RECIPE, references, train


def _prepare(folder: Path) -> list[Path]:
    references(folder, RECIPE)
    found = []
    for point in (60, 140, 260):
        path = folder / f"paused-{point}"
        in_child(partial(_with_faults, path, point, "exit", False))
        if RunDirectory(path / "run").has_state:
            found.append(path / "run")
    return found


def _attack(paused: list[Path], case: Case) -> str:
    chance, folder = case.random, case.folder / "run"
    shutil.copytree(chance.choice(paused), folder)
    path = folder / "state.npz"
    (folder / "state.previous.npz").unlink(missing_ok=True)
    kind = chance.random()
    if kind < 0.6 and path.exists():
        import json

        arrays = read_arrays(path)
        record = mutated_json(json.loads(str(arrays["record"])), chance)
        arrays["record"] = np.array(record.decode("utf-8", "replace").replace("\x00", ""))
        write_arrays(path, arrays)
    else:
        files = [item for item in sorted(folder.iterdir()) if item.is_file()]
        chosen = chance.choice(files)
        chosen.write_bytes(mutated_bytes(chosen.read_bytes(), chance))
    train(folder)
    return "resumed"


GROUP = Group("states", 0.8, _prepare, _attack)

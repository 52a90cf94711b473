"""Damaged and forged model.npz and state.npz: never believed, never larger than they are.

Bytes of an archive have a checksum. So one with changed bytes that is accepted must hold what it
held before; and where the previous state is intact, resuming finds a state.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bihm_repro.runs.arrays import fingerprint_of
from bihm_repro.runs.checkpoint import divided
from bihm_repro.runs.layout import RunDirectory
from bihm_repro.runs.parameters import read_parameters
from bihm_repro.training.log import TrainingLog
from tests.torture.harness import Case, Failure, Group
from tests.torture.mutations import NASTY_TEXTS, mutated_bytes, mutated_json

MODEL = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(3, np.float32)}
META = {"kind": "bihm", "layers": [2], "data_dim": 3, "recipe_fingerprint": "f"}
RECORD = {
    "status": {"phase": 0, "epoch": 2, "phase_start": 0, "batch": 1, "updates": 7,
               "phase_updates": 7, "draw": 21, "seconds": 1.5, "sums": {"log_p": -3.5},
               "examples": 4, "best_valid": -2.0, "best_epoch": 1, "phase_stop": "",
               "cut_by_budget": False, "finished": False},
    "rows": [{"phase": 0, "epoch": 1, "updates": 3, "seconds": 0.5, "train_log_p": -3.25,
              "best": True, "log_z2": None, "active_units": "2"}],
    "data_fingerprint": "f",
    "best": "",
}  # fmt: skip
RECIPE = 'dataset = "bars"\n[model]\nlayers = [2]\n'
HEADERS = (
    "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 3)}",
    "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2)}",
    "{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3)}",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}",
    "{'descr': ('<f4', (6,)), 'fortran_order': False, 'shape': ()}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 6)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (6.0,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': [6]}",
    "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (3,)}",
    "{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}",
    "{'descr': '|V24', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '<U99999999', 'fortran_order': False, 'shape': ()}",
    "{'descr': '|S0', 'fortran_order': False, 'shape': (99999999999,)}",
    "{'descr': '<U0', 'fortran_order': False, 'shape': (99999999999,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 99999999999)}",
    "__import__('os').abort()",
    "(" * 3000,
    "{" * 90 + "}" * 90,
    "",
)


class Seeds(NamedTuple):
    """Archives as bytes, and what they hold."""

    model: bytes
    state: bytes
    compressed: bytes


def _archive(arrays: dict[str, Any], compressed: bool = False) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def state_arrays(record: Any = RECORD, model: dict[str, np.ndarray] = MODEL) -> dict[str, Any]:
    """Return the entries of a state.npz."""
    text = record if isinstance(record, str) else json.dumps(record)
    return {
        **{f"parameter/{name}": value for name, value in model.items()},
        "rule/count": np.array(7),
        "record": np.array(text),
    }


def _prepare(folder: Path) -> Seeds:
    model = {**MODEL, "meta": np.array(json.dumps(META))}
    return Seeds(_archive(model), _archive(state_arrays()), _archive(model, compressed=True))


# -- forged archives: valid checksums, wrong content


def _npy(header: str, body: bytes, version: bytes = b"\x01\x00") -> bytes:
    text = header.encode("latin-1", "replace")
    size = len(text).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + size + text + body


def _plain(value: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, value, allow_pickle=True)
    return buffer.getvalue()


def _array(chance: random.Random) -> np.ndarray:
    return np.asarray(
        chance.choice(
            (
                np.full((2, 3), np.nan, np.float32),
                np.full((2, 3), np.inf),
                np.zeros((3, 2), np.float32),
                np.zeros((2, 3), np.float16),
                np.zeros((2, 3), np.longdouble),
                np.zeros((2, 3), ">f4"),
                np.zeros((2, 3), np.int8),
                np.zeros((2, 3), bool),
                np.zeros((0, 3), np.float32),
                np.zeros((), np.float32),
                np.zeros((1,) * 32, np.float32),
                np.asfortranarray(MODEL["w"]),
                np.array(["a", "b"]),
                np.array([b"a"]),
                np.array([None, {}], dtype=object),
                np.array(chance.choice(NASTY_TEXTS[:20]).replace("\ud800", "")),
                np.zeros(3, "M8[s]"),
            )
        )
    )


def _forged(entries: dict[str, bytes], chance: random.Random) -> bytes:
    name = chance.choice(list(entries))
    kind = chance.randrange(6)
    if kind == 0:
        header = chance.choice(HEADERS) + " " * chance.choice((0, 20)) + "\n"
        version = chance.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"))
        entries[name] = _npy(header, bytes(chance.choice((0, 24, 1000))), version)
    elif kind == 1:
        entries[name] = _plain(_array(chance))
    elif kind == 2:
        entries[chance.choice(("../x", " ", "best/w", "rule/", "a/b/c", *NASTY_TEXTS[:12]))] = (
            entries.pop(name) if chance.random() < 0.5 else entries[name]
        )
    elif kind == 3:
        del entries[name]
    elif kind == 4:
        entries[name] = mutated_bytes(entries[name], chance)
    else:
        size = chance.choice((10_000, 300_000))
        entries[name] = _plain(np.zeros(size, np.float32))
    return _zipped(entries, chance)


def _zipped(entries: dict[str, bytes], chance: random.Random) -> bytes:
    buffer = io.BytesIO()
    kinds = (zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
    with zipfile.ZipFile(buffer, "w", chance.choice(kinds)) as archive:
        for name, content in entries.items():
            safe = name.encode("utf-8", "replace").decode().strip("\0") or "x"
            archive.writestr(f"{safe}.npy" if chance.random() < 0.98 else safe, content)
            if chance.random() < 0.02:
                archive.writestr(f"{safe}.npy", content)
    data = buffer.getvalue()
    if chance.random() < 0.05:  # says that it is encrypted
        at = data.rfind(b"PK\x01\x02")
        data = data[: at + 8] + b"\x01" + data[at + 9 :]
    return data


def _forged_record(chance: random.Random) -> bytes:
    text = mutated_json(RECORD, chance).decode("utf-8", "replace")
    return _archive(state_arrays(text.replace("\x00", "")))


# -- the attacks


def _model(seeds: Seeds, case: Case) -> str:
    chance, path = case.random, case.folder / "model.npz"
    if chance.random() < 0.6:
        path.write_bytes(mutated_bytes(chance.choice((seeds.model, seeds.compressed)), chance))
        if dict_fingerprint(read_parameters(path)) != fingerprint_of(MODEL):
            raise Failure("changed bytes were accepted as other parameters")
        return "accepted"
    meta = (
        json.dumps(META)
        if chance.random() < 0.7
        else mutated_json(META, chance).decode("utf-8", "replace")
    )
    entries = {name: _plain(value) for name, value in MODEL.items()}
    entries["meta"] = _plain(np.array(meta.replace("\x00", "")))
    path.write_bytes(
        _forged(entries, chance) if chance.random() < 0.8 else _zipped(entries, chance)
    )
    values = read_parameters(path)
    if not all(np.isfinite(value).all() for value in values.values()):
        raise Failure("values that are not finite were accepted")
    return "accepted"


def dict_fingerprint(values: dict[str, np.ndarray]) -> str:
    """Return the fingerprint of what was read."""
    return fingerprint_of(dict(values))


def _state(seeds: Seeds, case: Case) -> str:
    chance, run = case.random, RunDirectory(case.folder / "run")
    run.path.mkdir()
    run.file("recipe.toml").write_text(RECIPE)
    bytes_only = chance.random() < 0.5
    if bytes_only:
        content = mutated_bytes(seeds.state, chance)
    elif chance.random() < 0.6:
        content = _forged_record(chance)
    else:
        entries = {name: _plain(np.asarray(value)) for name, value in state_arrays().items()}
        content = _forged(entries, chance)
    run.file("state.npz").write_bytes(content)
    fallback = chance.random() < 0.3
    if fallback:
        run.file("state.previous.npz").write_bytes(seeds.state)
    try:
        state = run.read_state(MODEL)
    except ValueError as error:
        if fallback:
            raise Failure(f"the intact previous state was not used: {error}") from error
        raise
    if state is None:
        raise Failure("there is a state, and none was found")
    if bytes_only and (
        state.record != RECORD
        or not np.array_equal(state.arrays["parameter/w"], MODEL["w"])
        or int(state.arrays["rule/count"]) != 7
    ):
        raise Failure("changed bytes were accepted as another state")
    divided(state.arrays)
    TrainingLog.from_record(state.record)
    return "accepted"


ATTACKS: tuple[Callable[[Seeds, Case], str], ...] = (_model, _state)


def _attack(seeds: Seeds, case: Case) -> str:
    return ATTACKS[case.number % len(ATTACKS)](seeds, case)


GROUP = Group("archives", 3.0, _prepare, _attack)

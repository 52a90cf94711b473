"""The JSON records of a run, and what may be in them: status, state, evaluation.

Whoever reads a record gets one whose fields have their types, or an InputError that names the
field, its value and what is allowed.
"""

from __future__ import annotations

import functools
import math
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Optional

from bihm_repro.errors import InputError
from bihm_repro.models.registry import kinds

__all__ = [
    "Status",
    "TEXT_COLUMNS",
    "check_evaluation",
    "check_recipe",
    "check_state",
    "check_status",
    "source_commit",
]


@dataclass
class Status:
    """How far training has come; JSON values only, so that a checkpoint can hold it."""

    phase: int = 0
    phase_start: int = 0
    """Epochs that were over when the phase began."""
    epoch: int = 0
    """Epochs that are over."""
    batch: int = 0
    """Mini-batches done of the current epoch."""
    updates: int = 0
    phase_updates: int = 0
    draw: int = 0
    """The counter of the next random numbers, as of the last checkpoint or end of a phase."""
    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    """Running sums of the update's own metrics over the current epoch."""
    examples: int = 0
    best_valid: Optional[float] = None  # noqa: UP045 (Python 3.9)
    best_epoch: int = 0
    phase_stop: str = ""
    """Why the phase has to end, empty while it continues."""
    cut_by_budget: bool = False
    """Whether a phase was ended by a time budget and not by its own rules."""
    finished: bool = False

    @property
    def phase_epoch(self) -> int:
        """Epochs of this phase that are over."""
        return self.epoch - self.phase_start


TEXT_COLUMNS = ("active_units",)
"""Columns of the log that hold text: the counts of active units, from the data up."""

Rule = tuple[str, Callable[[Any], bool]]


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 2.0**1023 and math.isfinite(value)


def _is_cell(name: str, value: Any) -> bool:
    """Whether a cell of the log is empty, a flag, a number, or counts of units such as 245 142."""
    if name in TEXT_COLUMNS and isinstance(value, str):
        return all(word.isdecimal() for word in value.split())
    return value is None or isinstance(value, bool) or _is_number(value)


def _list_of(what: str, accepts: Callable[[Any], bool]) -> Rule:
    return f"a list of {what}", lambda value: isinstance(value, list) and all(map(accepts, value))


def _or_null(rule: Rule) -> Rule:
    return f"{rule[0]} or null", lambda value: value is None or rule[1](value)


COUNT: Rule = ("an integer, 0 or more", _is_count)
NUMBER: Rule = ("a finite number", _is_number)
NUMBER_OR_NULL = _or_null(NUMBER)
TEXT: Rule = ("a text", lambda value: isinstance(value, str))
BOOLEAN: Rule = ("true or false", lambda value: isinstance(value, bool))
OBJECT: Rule = ("an object", lambda value: isinstance(value, dict))
NUMBERS: Rule = (
    "an object of finite numbers",
    lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
)
SIZES = _list_of("integers", _is_count)
ROWS = _list_of(
    "objects of finite numbers",
    lambda row: isinstance(row, dict) and all(_is_cell(*cell) for cell in row.items()),
)


def _fields(*rules: tuple[Rule, str]) -> dict[str, Rule]:
    """Return the rule of each field; the names of those with the same rule are given together."""
    return {name: rule for rule, names in rules for name in names.split()}


RULES: dict[str, Rule] = {
    "int": COUNT,
    "float": NUMBER,
    "dict[str, float]": NUMBERS,
    "Optional[float]": NUMBER_OR_NULL,
    "str": TEXT,
    "bool": BOOLEAN,
}
STATUS = {item.name: RULES[str(item.type)] for item in fields(Status)}
PUBLIC_STATUS = _fields(
    (BOOLEAN, "finished cut_by_budget"),
    (COUNT, "phase phases epochs updates best_epoch draw"),
    (NUMBER, "seconds"),
    (NUMBER_OR_NULL, "best_valid"),
    (TEXT, "engine data_fingerprint recipe_fingerprint commit version"),
)
STATE = _fields((OBJECT, "status"), (ROWS, "rows"), (TEXT, "data_fingerprint best"))
EVALUATION = _fields(
    (TEXT, "dataset split commit data_fingerprint data_exactness model_kind"),
    (TEXT, "recipe_fingerprint model_fingerprint"),
    (COUNT, "n_examples seed"),
    (_or_null(("an integer", _is_count)), "updates"),
    (BOOLEAN, "finished"),
    (NUMBER, "seconds"),
    (OBJECT, "samples more_samples log_z2 log_z ess"),
    (NUMBERS, "estimator_seconds"),
    (SIZES, "layers active_units"),
    (_list_of("finite numbers", _is_number), "information"),
)
ESTIMATE = _fields(
    (NUMBER, "value"), (NUMBER_OR_NULL, "standard_error"), (COUNT, "samples inner examples")
)
RECIPE = _fields(
    (TEXT, "dataset title"),
    (COUNT, "seed"),
    (OBJECT, "model training monitor evaluation"),
    (_list_of("objects", OBJECT[1]), "phases"),
)


def check_recipe(content: Mapping[str, Any]) -> None:
    """Refuse a frozen recipe in which what the report shows has the wrong type."""
    _check(content, RECIPE)
    known = kinds()
    kind = (f"one of {', '.join(known)}", lambda value: isinstance(value, str) and value in known)
    _check(content.get("model", {}), {"layers": SIZES, "kind": kind}, "model.")
    for section in (content.get("monitor", {}), *content.get("phases", [])):
        _check(section, {"valid_samples": COUNT})


def check_status(content: Mapping[str, Any]) -> None:
    """Refuse a status.json with a field of the wrong type."""
    _check(content, PUBLIC_STATUS)


def check_state(record: Mapping[str, Any], phases: int | None = None) -> None:
    """Refuse a state's record that training cannot resume from; ``phases`` is their number."""
    _check(record, STATE)
    status = record.get("status", {})
    _check(status, STATUS, "status.")
    unknown = sorted(set(status) - set(STATUS))
    if unknown:
        raise InputError(
            f"field 'status.{unknown[0]}' is unknown: the state was written by another version"
        )
    if status.get("phase_start", 0) > status.get("epoch", 0):
        raise InputError(
            f"field 'status.phase_start' is {status['phase_start']}, later than the "
            f"current epoch {status.get('epoch', 0)}"
        )
    if phases is not None and status.get("phase", 0) >= phases:
        raise InputError(
            f"field 'status.phase' is {status['phase']}: the recipe has {phases} "
            "phases, counted from 0"
        )


def check_evaluation(content: Mapping[str, Any]) -> None:
    """Refuse an evaluation.json without estimates, or with a field of the wrong type."""
    _check(content, EVALUATION)
    if not content.get("samples"):
        raise InputError("field 'samples' must map K to estimates")
    for table in ("samples", "more_samples"):
        for count, entries in content.get(table, {}).items():
            if not (count.isascii() and count.isdigit() and len(count) < 19):
                raise InputError(f"field '{table}' has the key {count!r}: must be a number K")
            _check_estimates(entries, f"{table}.{count}")
            if "log_p" not in entries:
                raise InputError(f"field '{table}.{count}.log_p' has no value")
    _check_estimates({name: content[name] for name in ("log_z2", "log_z") if name in content}, "")
    ess = content.get("ess", {})
    _check(ess, ESTIMATE, "ess.")
    _check_estimates({name: item for name, item in ess.items() if name not in ESTIMATE}, "ess")


def _check_estimates(entries: Any, where: str) -> None:
    _check({where: entries}, {where: OBJECT})
    for name, entry in entries.items():
        place = f"{where}.{name}" if where else name
        _check({place: entry}, {place: OBJECT})
        _check(entry, ESTIMATE, f"{place}.")
        if "value" not in entry:
            raise InputError(f"field '{place}' has no value")


def _check(content: Mapping[str, Any], rules: Mapping[str, Rule], prefix: str = "") -> None:
    for name, (allowed, accepts) in rules.items():
        if name in content and not accepts(content[name]):
            found = repr(content[name])
            found = found if len(found) <= 40 else f"{found[:40]}..."
            raise InputError(f"field '{prefix}{name}' is {found}: must be {allowed}")


@functools.lru_cache(maxsize=1)
def source_commit() -> str:
    """Return the commit of the source tree, or "" outside a repository."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()

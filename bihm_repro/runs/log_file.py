"""``log.csv``: one row per epoch. Its columns, and how they are written and read."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bihm_repro.errors import InputError
from bihm_repro.files import read_text
from bihm_repro.recipes.recipe import Recipe
from bihm_repro.runs.record import TEXT_COLUMNS

if TYPE_CHECKING:
    import pandas

__all__ = ["csv_row", "log_columns", "log_rows", "read_csv"]


def log_columns(recipe: Recipe) -> list[str]:
    """Return the columns of log.csv for ``recipe``."""
    columns = (
        "phase epoch updates seconds learning_rate samples train_log_p train_log_p_tilde_star "
        "valid_log_p valid_log_p_tilde_star valid_bound best"
    ).split()
    ks = recipe.monitor.test_samples
    columns += [f"test_log_p_{k}" for k in ks]
    columns += [f"test_log_p_tilde_star_{k}" for k in ks]
    return [*columns, "log_z2", "active_units"]


def csv_row(columns: Sequence[str], row: Mapping[str, Any]) -> str:
    """Return a row of the log as a line."""
    return ",".join(_cell(row.get(name)) for name in columns)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return str(int(value)) if isinstance(value, bool) else repr(value)


def read_csv(path: Path) -> pandas.DataFrame:
    """Read the complete rows of a table of numbers; empty where there is no file."""
    import pandas

    text = read_text(path) if path.exists() else ""
    # A run that is being trained may be in the middle of writing its last line.
    complete = text[: text.rfind("\n") + 1]
    if not complete:
        return pandas.DataFrame()
    # Since pandas 3.1 numbers are read back exactly, and the setting is deprecated.
    version = tuple(map(int, pandas.__version__.split(".")[:2]))
    exactly: Any = {} if version >= (3, 1) else {"float_precision": "round_trip"}
    dtype = {name: str for name in TEXT_COLUMNS}
    try:
        frame = pandas.read_csv(io.StringIO(complete), dtype=dtype, **exactly)
    except (ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise InputError(f"{path}: is not a readable CSV file ({error})") from None
    for column in frame:
        numeric = frame[column].dtype.kind in "biuf" or column in TEXT_COLUMNS
        if len(frame) and not numeric:
            raise InputError(f"{path}: its column {column!r} holds values that are not numbers")
    return frame


def log_rows(log: pandas.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a log as a state holds them: without the cells that are empty."""
    return [
        {name: value for name, value in row.items() if value == value}
        for row in log.to_dict("records")
    ]

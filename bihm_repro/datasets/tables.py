"""Reading a table with columns, from text or Parquet, and choosing its features.

The separator, the line of column names and a column of row numbers are guessed where the options
do not give them. Whatever is guessed is passed to ``say``.
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bihm_repro.datasets import readers
from bihm_repro.datasets.checks import check_header
from bihm_repro.errors import InputError

if TYPE_CHECKING:
    import pandas

__all__ = ["TABLES", "ImportOptions", "Say", "read_table"]

Say = Callable[[str], None]
TABLES = (".csv", ".tsv", ".txt", ".data", ".parquet")
"""The suffixes of files that hold a table."""

_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "|", r"\s+": "white space"}
_INDEX_NAMES = ("", "index", "id", "unnamed: 0")


@dataclass(frozen=True)
class ImportOptions:
    """How to read a user's file; ``None`` means to guess."""

    separator: str | None = None
    header: bool | None = None
    """Whether the first line of a text table has the names of the columns."""
    drop: tuple[str, ...] = ()
    """Columns that are not features, by name or number (from 0)."""
    label: str | None = None
    """The column of class labels, which is not a feature."""
    scale: float | None = None
    """The value of probability 1: all values are divided by it."""
    threshold: float | None = None
    """Values above it become 1, the others 0."""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _guess_separator(lines: list[str]) -> str:
    """Return the separator that cuts all of the first lines into the same number of fields."""
    for separator in _SEPARATORS:
        counts = {len(re.split(re.escape(separator), line)) for line in lines}
        if separator == r"\s+":
            counts = {len(line.split()) for line in lines}
        if len(counts) == 1 and counts != {1}:
            return separator
    return max(",;\t|", key=lambda separator: sum(line.count(separator) for line in lines))


def _guess_header(first: list[str], second: list[str]) -> bool:
    """Return whether ``first`` has the names of columns, given the fields of the next line."""
    names = [name for name in first if name]
    if not any(map(_is_number, names)):
        return bool(names)
    if len(names) > 2 and names in (
        [str(i + start) for i in range(len(names))] for start in (0, 1)
    ):
        return True
    return any(
        name and not _is_number(name) and _is_number(value) for name, value in zip(first, second)
    )


def _read_text(path: Path, suffix: str, options: ImportOptions, say: Say) -> pandas.DataFrame:
    import pandas

    text = readers.read_bytes(path).decode("utf-8-sig")
    lines = [line for line in text[: 1 << 20].splitlines() if line.strip()][:20]
    if not lines:
        raise InputError("it has no rows")
    separator = options.separator
    if separator is None:
        separator = "\t" if suffix == ".tsv" else _guess_separator(lines)
        say(f"the separator is {_SEPARATORS[separator]}")
    pattern = separator if separator == r"\s+" else re.escape(separator)
    fields = [[field.strip(' "') for field in re.split(pattern, line)] for line in lines[:2]]
    header = options.header
    if header is None:
        header = _guess_header(fields[0], fields[-1] if len(fields) > 1 else [])
        said = "has the names of the columns" if header else "is an example (no column names)"
        say(f"the first line {said}")
    frame = pandas.read_csv(
        io.StringIO(text),
        sep=separator,
        header=0 if header else None,
        skipinitialspace=True,
        low_memory=False,
    )
    if header and len(fields[-1]) == len(fields[0]) + 1:
        say("the first column has no name: it is taken for row names and left out")
    if frame.empty:
        raise InputError("it has no rows")
    return frame.reset_index(drop=True)


def _read_parquet(path: Path) -> pandas.DataFrame:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            f"reading .parquet files needs pyarrow ({error}); run `pip install pyarrow`, or save "
            f"the table as .csv"
        ) from error
    file = parquet.ParquetFile(path)
    shape = (file.metadata.num_rows, file.metadata.num_columns)
    check_header("the table", shape, np.dtype(float))
    return file.read().to_pandas()


def _columns_of(frame: pandas.DataFrame, wanted: Iterable[str], option: str) -> list[object]:
    """Return the columns that the user named, by name or number."""
    known = {str(column): column for column in frame.columns}
    found = []
    for name in wanted:
        parts = [name] if name in known else name.split(",")
        for part in parts:
            if part not in known:
                shown = ", ".join(list(known)[:10]) + (", ..." if len(known) > 10 else "")
                raise InputError(f"{option} {part}: no such column; the columns are {shown}")
            found.append(known[part])
    return found


def _index_column(frame: pandas.DataFrame) -> object | None:
    """Return the first column if its name and values are those of row numbers."""
    first = frame.columns[0]
    values = frame[first].to_numpy()
    named = isinstance(first, str) and first.strip().lower() in _INDEX_NAMES
    if not named or values.dtype.kind not in "iu" or frame.shape[1] < 2:
        return None
    return first if (np.diff(values) == 1).all() and values[0] in (0, 1) else None


def _features(frame: pandas.DataFrame, options: ImportOptions, say: Say) -> np.ndarray:
    """Return the table's features, ``(examples, dim)``."""
    left_out = _columns_of(frame, options.drop, "--drop")
    if options.label is not None:
        left_out += _columns_of(frame, [options.label], "--label")
    index = _index_column(frame)
    if index is not None and index not in left_out:
        say(f"the column {str(index)!r} has the numbers of the rows: it is left out")
        left_out.append(index)
    frame = frame.drop(columns=left_out)
    texts = [column for column in frame.columns if frame[column].dtype.kind not in "biuf"]
    if texts:
        values = frame[texts[0]]
        text = next((value for value in values if not _is_number(str(value))), values.iloc[0])
        raise InputError(
            f"column {texts[0]} holds text such as {str(text)!r}; leave out the columns of text "
            f"with --drop {_quoted(texts)}, or encode them as columns of 0 and 1"
        )
    gaps = [column for column in frame.columns if frame[column].isna().any()]
    if gaps:
        row = int(frame[gaps[0]].isna().to_numpy().argmax())
        raise InputError(
            f"column {gaps[0]} has no value in row {row}; leave out the columns with gaps with "
            f"--drop {_quoted(gaps)}, or fill in the values"
        )
    if options.scale is None and options.threshold is None:
        _refuse_odd_columns(frame)
    return frame.to_numpy(dtype=np.float32)


def _refuse_odd_columns(frame: pandas.DataFrame) -> None:
    """Refuse a table of which some columns have values from -1 to 1, and others do not."""
    odd = frame.columns[((frame > 1) | (frame < -1)).any()]
    if 0 < len(odd) < frame.shape[1]:
        low, high = frame[odd[0]].min(), frame[odd[0]].max()
        raise InputError(
            f"column {odd[0]} has values from {low:g} to {high:g}, others have 0 to 1; leave out "
            f"numbers of rows, labels and the like with --drop {_quoted(odd)}, or give --scale or "
            f"--threshold for all columns"
        )


def _quoted(columns: Iterable[object]) -> str:
    """Return the names of columns as a shell reads them."""
    return " ".join(shlex.quote(str(column)) for column in columns)


def read_table(path: Path, suffix: str, options: ImportOptions, say: Say) -> np.ndarray:
    """Return the features of a table, ``(examples, dim)`` float32."""
    if suffix == ".parquet":
        return _features(_read_parquet(path), options, say)
    return _features(_read_text(path, suffix, options, say), options, say)

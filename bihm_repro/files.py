"""Reading and writing files safely.

A file is written to a temporary name and renamed, so that a reader sees the old one or the new one
and never a part of one. JSON and TOML are read within limits, and whatever is wrong with a file is
an :class:`~bihm_repro.errors.InputError` of one line that names it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w

from bihm_repro.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "parse_json",
    "parse_toml",
    "read_json",
    "read_text",
    "read_toml",
    "sweep_temporaries",
    "sync",
    "to_toml",
    "write_json",
    "write_text",
    "written_atomically",
]

LARGEST_TEXT = 64 * 2**20
"""Bytes that a text file may have; the longest log of a run has a few hundred thousand."""
NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF)
"""What file systems answer that cannot flush a folder."""


@contextmanager
def written_atomically(
    path: str | os.PathLike[str], keep: str | os.PathLike[str] | None = None
) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it to ``path`` when the block succeeds.

    The temporary file keeps the suffix of ``path`` and is removed when the block fails. With
    ``keep``, the file that was at ``path`` is renamed to that.

    >>> with written_atomically("results/run/log.csv") as temporary:  # doctest: +SKIP
    ...     frame.to_csv(temporary)
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}-{secrets.token_hex(4)}{path.suffix}")
    try:
        yield temporary
        sync(temporary)
        if keep is not None and path.exists():
            os.replace(path, keep)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: str | os.PathLike[str]) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    folder = os.path.isdir(path)
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if not (folder and error.errno in NO_SYNC):
            raise
    finally:
        os.close(handle)


def sweep_temporaries(folder: str | os.PathLike[str]) -> None:
    """Remove the temporary files that processes which no longer run have left in ``folder``."""
    for path in Path(folder).glob(".*"):
        found = re.fullmatch(r"\..+\.(\d+)-[0-9a-f]{8}(\.\w+)?", path.name)
        if found and not _is_running(int(found[1])):
            path.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` atomically."""
    with written_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as indented JSON to ``path`` atomically; NaN is refused, not written."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a text file of at most 64 MiB in UTF-8."""
    try:
        with open(path, "rb") as handle:
            content = handle.read(LARGEST_TEXT + 1)
        if len(content) > LARGEST_TEXT:
            raise InputError(f"{path}: is larger than {LARGEST_TEXT // 2**20} MiB")
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text ({error})") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder, not a file") from None


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a file that holds a JSON object."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, source: str) -> dict[str, Any]:
    """Return the JSON object that ``text`` is; ``source`` names it where it is not one."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()  # no lone surrogates, which UTF-8 lacks
    except RecursionError:
        raise InputError(f"{source}: is not valid JSON (nested too deeply)") from None
    except ValueError as error:
        raise InputError(f"{source}: is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{source}: must hold a JSON object, found {type(value).__name__}")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed")


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file."""
    return parse_toml(read_text(path), str(path))


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """Return the content of ``text``; ``source`` names it where it is not TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{source}: is not valid TOML (nested too deeply)") from None
    except ValueError as error:
        raise InputError(f"{source}: is not valid TOML: {error}") from None


def to_toml(content: dict[str, Any]) -> str:
    """Return ``content`` as TOML."""
    return tomli_w.dumps(content)

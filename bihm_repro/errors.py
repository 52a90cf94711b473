"""The errors that a user can fix; the command line prints each on one line and exits with 2."""

from __future__ import annotations

import numbers
from typing import Any

__all__ = ["InputError", "SetupError", "check_count"]


LONGEST = 2000
"""Characters of a message; of a longer one the beginning and the end are kept."""


class _OneLine(Exception):
    def __str__(self) -> str:
        """Return the message on one line, whatever names and values are in it."""
        line = " ".join(super().__str__().splitlines())
        return line if len(line) <= LONGEST else f"{line[: LONGEST - 505]} ... {line[-500:]}"


class InputError(_OneLine, ValueError):
    """Something given by the user is wrong: the message names it, what is allowed and the fix."""


class SetupError(_OneLine, RuntimeError):
    """The machine lacks something that is needed: the message says what and how to get it."""


def check_count(value: Any, what: str, minimum: int = 1) -> int:
    """Return an integer of at least ``minimum``, or raise an InputError."""
    integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not (integer or (isinstance(value, float) and value.is_integer())) or value < minimum:
        raise InputError(f"{what} is {value!r}: an integer of at least {minimum} is needed")
    return int(value)

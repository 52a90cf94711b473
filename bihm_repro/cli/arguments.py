"""Types for argparse, and its help formatter."""

from __future__ import annotations

import argparse
from collections.abc import Callable

__all__ = ["HelpFormatter", "integer", "integers"]

MAXIMUM = 2**63 - 1


class HelpFormatter(argparse.HelpFormatter):
    """Append the default of an option to its help, where there is one worth stating."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        stated = action.default not in (None, False, argparse.SUPPRESS) and action.default != []
        if action.option_strings and stated and "default" not in text and "%(" not in text:
            return f"{text} (default: %(default)s)"
        return text


def _read(text: str) -> int:
    """Read an integer, also one written as 1e6; ValueError or OverflowError for anything else."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not value.is_integer():
            raise
        return int(value)


def integer(minimum: int = 0) -> Callable[[str], int]:
    """Return a type for argparse: an integer of at least ``minimum``, never rounded.

    >>> integer(1)("1e6")
    1000000
    """

    def convert(text: str) -> int:
        try:
            value = _read(text)
        except (ValueError, OverflowError):
            value = minimum - 1
        if not minimum <= value <= MAXIMUM:
            raise argparse.ArgumentTypeError(
                f"{text!r}: an integer of at least {minimum} and below 2**63, as in 1000 or 1e6"
            )
        return value

    return convert


def integers(text: str) -> list[int]:
    """Read comma-separated integers of at least 1: a type for argparse.

    >>> integers("1,10,1e2")
    [1, 10, 100]
    """
    return [integer(1)(word) for word in text.split(",")]

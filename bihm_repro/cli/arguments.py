"""Numbers on the command line: whole, in range, never rounded in silence."""

from __future__ import annotations

import argparse
from collections.abc import Callable

__all__ = ["whole_number", "whole_numbers"]

MOST = 2**63 - 1


def _read(text: str) -> int:
    """A whole number, also one written as 1e6; ValueError or OverflowError for anything else."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not value.is_integer():
            raise
        return int(value)


def whole_number(least: int = 0) -> Callable[[str], int]:
    """A type for argparse: a whole number from ``least`` on.

    >>> whole_number(1)("1e6")
    1000000
    """
    def convert(text: str) -> int:
        try:
            value = _read(text)
        except (ValueError, OverflowError):
            value = least - 1
        if not least <= value <= MOST:
            raise argparse.ArgumentTypeError(
                f"{text!r}: a whole number of at least {least} and below 2**63, as in 1000 or 1e6")
        return value
    return convert


def whole_numbers(text: str) -> list[int]:
    """A type for argparse: whole numbers from 1 on, by commas.

    >>> whole_numbers("1,10,1e2")
    [1, 10, 100]
    """
    return [whole_number(1)(word) for word in text.split(",")]

"""Types for argparse, and its help formatter."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

__all__ = ["HelpFormatter", "add_shared", "integer", "integers", "option_words"]

MAXIMUM = 2**63 - 1


class HelpFormatter(argparse.HelpFormatter):
    """Append the default of an option to its help, where there is one worth stating."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        stated = action.default not in (None, False, argparse.SUPPRESS) and action.default != []
        if action.option_strings and stated and "default" not in text and "%(" not in text:
            return f"{text} (default: %(default)s)"
        return text


def add_shared(parser: argparse.ArgumentParser, *names: str) -> None:
    """Declare those options ``names`` that several commands have."""
    shared: dict[str, dict[str, Any]] = {
        "data": {"default": "data", "metavar": "DIR", "help": "the folder of the data sets"},
        "results": {
            "default": "results",
            "metavar": "DIR",
            "help": "the folder of the run folders",
        },
        "mirror": {
            "default": os.environ.get("BIHM_DATA_MIRROR") or None,
            "metavar": "DIR_OR_URL",
            "help": "folder or URL tried before the public ones (BIHM_DATA_MIRROR)",
        },
        "fresh": {
            "action": "store_true",
            "help": "restart; what was there moves to .replaced/ beside the run folder",
        },
        "no-evaluate": {"action": "store_true", "help": "do not evaluate at the end"},
        "threads": {"type": int, "help": "threads (default: all cores)"},
        "engine": {"choices": ("theano", "pytensor"), "help": "the symbolic engine"},
        "device": {"help": "cpu (default); with pytensor also jax-cpu or gpu"},
    }
    for name in names:
        parser.add_argument(f"--{name}", **shared[name])


def option_words(args: argparse.Namespace, *names: str, **defaults: str) -> list[str]:
    """Return the options that ``args`` has as words of a command line, defaults left out."""
    found = {name: getattr(args, name.replace("-", "_")) for name in (*names, *defaults)}
    given = {
        name: value for name, value in found.items() if value not in (None, defaults.get(name))
    }
    return [word for name, value in given.items() for word in (f"--{name}", str(value))]


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

"""The types of value that a setting of a recipe may have: each converts a value or refuses it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Setting",
    "boolean",
    "hidden_sizes",
    "integer",
    "number",
    "one_of",
    "registered",
    "schedule",
    "setting",
    "sizes",
    "text",
]


@dataclass(frozen=True)
class Setting:
    """A rule for values: which are accepted, said in words by ``allowed``, and what they become."""

    allowed: str
    accepts: Callable[[Any], bool]
    change: Callable[[Any], Any] = lambda value: value
    choices: tuple[str, ...] = ()

    def convert(self, value: Any) -> Any:
        """Return the setting that ``value`` makes; TypeError or ValueError where it makes none."""
        if not self.accepts(value):
            raise ValueError
        return self.change(value)


def setting(
    default: Any,
    rule: Setting | registered,
    doc: str = "",
    *,
    later: bool = False,
    decides: bool = True,
    compiled: bool = True,
) -> Any:
    """Declare a dataclass field with its default and the rule that its values obey.

    Parameters
    ----------
    doc : what the setting means, for the template and the reference
    later : the setting was added after runs had been made: a recipe that has it at its default
        keeps the fingerprint it had before the setting existed. Every new setting needs it.
    decides : whether the trained model or its log depends on it; where not, it is not a part of
        the fingerprint
    compiled : for a setting of a phase, whether the compiled update depends on its value
    """
    return field(
        default=default,
        metadata={
            "setting": rule,
            "doc": doc,
            "later": later,
            "decides": decides,
            "compiled": compiled,
        },
    )


def one_of(*choices: str) -> Setting:
    """One word of a list."""
    return Setting(
        f"one of {', '.join(choices)}",
        lambda value: isinstance(value, str) and value in choices,
        choices=choices,
    )


@dataclass(frozen=True)
class registered:  # noqa: N801 (used like the functions around it)
    """One word of a registry; with ``by_level``, also a list of them; looked up when checked."""

    names: Callable[[], tuple[str, ...]]
    by_level: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        """The words there are now."""
        return self.names()

    @property
    def allowed(self) -> str:
        """What is allowed, for messages."""
        lists = ", or a list of one for each latent layer" if self.by_level else ""
        return f"one of {', '.join(self.choices)}{lists}"

    def convert(self, value: Any) -> Any:
        """Return the word, or the list as a tuple."""
        if self.by_level and isinstance(value, (list, tuple)) and value:
            return tuple(one_of(*self.choices).convert(item) for item in value)
        return one_of(*self.choices).convert(value)


def integer(minimum: int) -> Setting:
    """An integer, ``minimum`` or more, that fits into 64 bits."""
    return Setting(
        f"an integer, {minimum} or more and below 2**63",
        lambda value: type(value) is int and minimum <= value < 2**63,
    )


def number(above: float = -math.inf, at_least: float = -math.inf) -> Setting:
    """A finite real number with an optional lower limit."""
    limit = f" above {above}" if above > -math.inf else ""
    limit += f", {at_least} or more" if at_least > -math.inf else ""

    def accepts(value: Any) -> bool:
        real = type(value) in (int, float) and math.isfinite(float(value))
        return real and value > above and value >= at_least

    return Setting(f"a finite number{limit}", accepts, float)


def boolean() -> Setting:
    """True or false."""
    return Setting("true or false", lambda value: isinstance(value, bool))


def text(what: str, empty: bool = False) -> Setting:
    """A string on one line, which UTF-8 can hold."""

    def accepts(value: Any) -> bool:
        line = isinstance(value, str) and "\n" not in value and bool(value.strip() or empty)
        return line and bool(value.encode("utf-8") or True)  # UnicodeError is a ValueError

    return Setting(what, accepts)


def sizes(what: str, empty: bool = False) -> Setting:
    """A list of positive integers, one or more unless ``empty``."""
    positive = integer(1).convert
    return Setting(
        f"a list of integers, each 1 or more ({what})",
        lambda value: isinstance(value, (list, tuple)) and bool(value or empty),
        lambda value: tuple(map(positive, value)),
    )


def hidden_sizes() -> Setting:
    """A list of positive integers, or a list of such lists; may be empty."""
    each = sizes("", empty=True).convert

    def convert(value: Any) -> tuple[Any, ...]:
        nested = value and isinstance(value[0], (list, tuple))
        return tuple(map(each, value)) if nested else each(value)

    return Setting(
        "a list of layer sizes, or one such list for each latent layer",
        lambda value: isinstance(value, (list, tuple)),
        convert,
    )


def schedule() -> Setting:
    """Pairs of a learning rate and the number of epochs that use it."""
    rate, epochs = number(above=0).convert, integer(1).convert
    return Setting(
        "a list of [learning rate, epochs] pairs",
        lambda value: isinstance(value, (list, tuple)),
        lambda value: tuple((rate(first), epochs(second)) for first, second in value),
    )

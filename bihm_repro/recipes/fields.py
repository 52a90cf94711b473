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
    """A check: ``convert`` returns the value or raises; ``allowed`` says what it takes."""

    allowed: str
    convert: Callable[[Any], Any]
    choices: tuple[str, ...] = ()


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

    def convert(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError
        return value

    return Setting(f"one of {', '.join(choices)}", convert, choices)


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

    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value < 2**63:
            raise ValueError
        return value

    return Setting(f"an integer, {minimum} or more and below 2**63", convert)


def number(above: float | None = None, at_least: float | None = None) -> Setting:
    """A finite real number with an optional lower limit."""

    def convert(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError
        value = float(value)
        if (
            not math.isfinite(value)
            or (above is not None and value <= above)
            or (at_least is not None and value < at_least)
        ):
            raise ValueError
        return value

    limit = f" above {above}" if above is not None else ""
    limit += f", {at_least} or more" if at_least is not None else ""
    return Setting(f"a finite number{limit}", convert)


def boolean() -> Setting:
    """True or false."""

    def convert(value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError
        return value

    return Setting("true or false", convert)


def text(what: str, empty: bool = False) -> Setting:
    """A string on one line, which UTF-8 can hold."""

    def convert(value: Any) -> str:
        if not isinstance(value, str) or "\n" in value or not (value.strip() or empty):
            raise ValueError
        value.encode("utf-8")
        return value

    return Setting(what, convert)


def sizes(what: str) -> Setting:
    """A list of one or more positive integers."""

    def convert(value: Any) -> tuple[int, ...]:
        if not value:
            raise ValueError
        return _positive(value)

    return Setting(f"a list of integers, each 1 or more ({what})", convert)


def hidden_sizes() -> Setting:
    """A list of positive integers, or a list of such lists; may be empty."""

    def convert(value: Any) -> tuple[Any, ...]:
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple)):
            return tuple(_positive(item) for item in value)
        return _positive(value)

    return Setting("a list of layer sizes, or one such list for each latent layer", convert)


def schedule() -> Setting:
    """Pairs of a learning rate and the number of epochs that use it."""
    rate, epochs = number(above=0), integer(1)

    def convert(value: Any) -> tuple[tuple[float, int], ...]:
        if not isinstance(value, (list, tuple)):
            raise TypeError
        return tuple((rate.convert(first), epochs.convert(second)) for first, second in value)

    return Setting("a list of [learning rate, epochs] pairs", convert)


def _positive(value: Any) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError
    return tuple(integer(1).convert(item) for item in value)

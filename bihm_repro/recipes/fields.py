"""The kinds of value a recipe's setting may have: each converts a value or refuses it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Setting", "setting", "one_of", "whole", "number", "switch", "text", "sizes",
           "hidden_sizes", "schedule"]


@dataclass(frozen=True)
class Setting:
    """A check: ``convert`` returns the value or raises; ``allowed`` says what it takes."""

    allowed: str
    convert: Callable[[Any], Any]
    choices: tuple[str, ...] = ()


def setting(default: Any, rule: Setting) -> Any:
    """Declare a dataclass field with its default and the rule its values obey."""
    return field(default=default, metadata={"setting": rule})


def one_of(*choices: str) -> Setting:
    """One word of a list."""
    def convert(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError
        return value
    return Setting(f"one of {', '.join(choices)}", convert, choices)


def whole(least: int) -> Setting:
    """An integer, ``least`` or more, that fits into 64 bits."""
    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
            raise ValueError
        return value
    return Setting(f"a whole number, {least} or more and below 2**63", convert)


def number(above: float | None = None, at_least: float | None = None) -> Setting:
    """A finite real number with an optional lower limit."""
    def convert(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError
        value = float(value)
        if not math.isfinite(value) or (above is not None and value <= above) or (
                at_least is not None and value < at_least):
            raise ValueError
        return value
    limit = f" above {above}" if above is not None else ""
    limit += f", {at_least} or more" if at_least is not None else ""
    return Setting(f"a finite number{limit}", convert)


def switch() -> Setting:
    """True or false."""
    def convert(value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError
        return value
    return Setting("true or false", convert)


def text(what: str, empty: bool = False) -> Setting:
    """A string on one line."""
    def convert(value: Any) -> str:
        if not isinstance(value, str) or "\n" in value or not (value.strip() or empty):
            raise ValueError
        return value
    return Setting(what, convert)


def sizes(what: str) -> Setting:
    """A list of one or more positive integers."""
    def convert(value: Any) -> tuple[int, ...]:
        if not value:
            raise ValueError
        return _positive(value)
    return Setting(f"a list of whole numbers, each 1 or more ({what})", convert)


def hidden_sizes() -> Setting:
    """A list of positive integers, or a list of such lists; may be empty."""
    def convert(value: Any) -> tuple[Any, ...]:
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple)):
            return tuple(_positive(item) for item in value)
        return _positive(value)
    return Setting("a list of layer sizes, or one such list for each latent layer", convert)


def schedule() -> Setting:
    """Pairs of a learning rate and the epochs it is held."""
    rate, epochs = number(above=0), whole(1)

    def convert(value: Any) -> tuple[tuple[float, int], ...]:
        if not isinstance(value, (list, tuple)):
            raise TypeError
        return tuple((rate.convert(pair[0]), epochs.convert(pair[1]))
                     for pair in value if _is_pair(pair))
    return Setting("a list of [learning rate, epochs] pairs", convert)


def _is_pair(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ValueError
    return True


def _positive(value: Any) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError
    return tuple(whole(1).convert(item) for item in value)

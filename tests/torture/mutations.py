"""Mutations of bytes, text and JSON-like values, all drawn from a given ``random.Random``."""

from __future__ import annotations

import copy
import json
import random
import struct
from collections.abc import Callable
from typing import Any

NASTY_TEXTS = (
    "",
    " ",
    "\x00",
    "\x7f",
    "\x1b[31mred\x1b[0m",
    "a\nb",
    "a\r\nb",
    "\u2028",
    "\u202egnp.exe",
    "\ud800",
    "²",
    "١٢",
    "../../etc/passwd",
    "/dev/zero",
    "<script>torture()</script>",
    "|||",
    "a" * 3000,
    "nan",
    "inf",
    "1e999",
    "9" * 5000,
    "None",
    "[1, 2]",
    "%s%n{0}{x}",
    "é" * 300,
)
NASTY_NUMBERS = (
    0, 1, -1, 2, 3, 7, 255, 256, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**30,
    10**400, -(2**63), 0.5, -0.0, 1e-320, 1e308, -1e308,
)  # fmt: skip
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1)


def mutated_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return ``data`` after one to four small or large changes."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = chance.choice(BYTE_CHANGES)(data, chance)
    return data


def _place(data: bytes, chance: random.Random) -> int:
    # Headers are at the beginning, directories at the end: half of the changes go there.
    size = max(1, len(data))
    where = chance.random()
    if where < 0.25:
        return chance.randrange(min(size, 128))
    if where < 0.5:
        return size - 1 - chance.randrange(min(size, 256))
    return chance.randrange(size)


def _flip(data: bytes, chance: random.Random) -> bytes:
    at = _place(data, chance)
    return (
        data[:at] + bytes([(data[at] if data else 0) ^ (1 << chance.randrange(8))]) + data[at + 1 :]
    )


def _set(data: bytes, chance: random.Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def _edge(data: bytes, chance: random.Random) -> bytes:
    at, size = _place(data, chance), chance.choice("BHIQ")
    value = chance.choice(EDGES) & (2 ** (8 * struct.calcsize(size)) - 1)
    packed = struct.pack(chance.choice("<>") + size, value)
    return data[:at] + packed + data[at + len(packed) :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: _place(data, chance)]


def _delete(data: bytes, chance: random.Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + data[at + chance.choice((1, 2, 8, 64, 512)) :]


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + chance.randbytes(chance.choice((1, 4, 30, 300))) + data[at:]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    at, size = _place(data, chance), chance.choice((1, 8, 64, 1000))
    return data[: at + size] + data[at : at + size] * chance.choice((1, 2, 20)) + data[at + size :]


def _zero(data: bytes, chance: random.Random) -> bytes:
    at, size = _place(data, chance), chance.choice((4, 64, 4096))
    return data[:at] + bytes(len(data[at : at + size])) + data[at + size :]


def _move(data: bytes, chance: random.Random) -> bytes:
    at, other, size = _place(data, chance), _place(data, chance), chance.choice((4, 16, 128))
    piece = data[other : other + size]
    return data[:at] + piece + data[at + len(piece) :]


BYTE_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip, _flip, _set, _edge, _edge, _cut, _delete, _insert, _repeat, _zero, _move,
)  # fmt: skip


def mutated_text(text: str, chance: random.Random) -> bytes:
    """Return ``text`` in UTF-8 after changes to its lines and numbers, sometimes to its bytes."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        lines = text.split("\n")
        at = chance.randrange(len(lines))
        kind = chance.randrange(7)
        if kind == 0:
            lines.insert(at, lines[chance.randrange(len(lines))])
        elif kind == 1:
            del lines[at]
        elif kind == 2:
            lines[at] = _replaced_word(lines[at], chance)
        elif kind == 3:
            lines[at] = lines[at] + chance.choice(NASTY_TEXTS)
        elif kind == 4:
            lines[at] = lines[at] * chance.choice((2, 50))
        elif kind == 5:
            lines[at] = (
                chance.choice(('"', "'", "[", "{", "]", "=", ",", "\\", "#", ":")) + lines[at]
            )
        else:
            chance.shuffle(lines)
        text = "\n".join(lines)
    data = text.encode("utf-8", "surrogatepass")
    return mutated_bytes(data, chance) if chance.random() < 0.3 else data


def _replaced_word(line: str, chance: random.Random) -> str:
    words = line.replace(",", " , ").replace("=", " = ").split(" ")
    value = chance.choice(
        (*NASTY_TEXTS, *map(str, NASTY_NUMBERS if chance.random() < 0.7 else NOT_FINITE))
    )
    words[chance.randrange(len(words))] = value
    return " ".join(words).replace(" , ", ",").replace(" = ", "=")


def nasty_value(chance: random.Random, depth: int = 0) -> Any:
    """Return a value of any JSON type that code may not expect."""
    kind = chance.randrange(9)
    if kind == 0:
        return None
    if kind == 1:
        return chance.random() < 0.5
    if kind < 4:
        return chance.choice(NASTY_NUMBERS)
    if kind == 4:
        return chance.choice(NOT_FINITE)
    if kind < 7 or depth > 2:
        return chance.choice(NASTY_TEXTS)
    if kind == 7:
        return [nasty_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {
        chance.choice(NASTY_TEXTS[:20]): nasty_value(chance, depth + 1)
        for _ in range(chance.randrange(3))
    }


def mutated_value(value: Any, chance: random.Random) -> Any:
    """Return a copy of nested lists and objects with one to three places changed."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = [(None, None), *_places(value)]
        holder, key = chance.choice(places)
        if holder is None:
            if chance.random() < 0.1:
                value = nasty_value(chance)
        elif chance.random() < 0.15:
            del holder[key]
        elif isinstance(holder, dict) and chance.random() < 0.15:
            holder[chance.choice(NASTY_TEXTS[:24])] = holder.pop(key)
        else:
            holder[key] = nasty_value(chance)
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else ()
    )
    found = [(value, key) for key in keys]
    for key in keys:
        found += _places(value[key])
    return found


def mutated_json(value: Any, chance: random.Random) -> bytes:
    """Return the text of a mutated value, or a mutated text of the value."""
    if chance.random() < 0.7:
        return json.dumps(mutated_value(value, chance), ensure_ascii=chance.random() < 0.8).encode(
            "utf-8", "surrogatepass"
        )
    if chance.random() < 0.05:
        return b"[" * 20_000 if chance.random() < 0.5 else b'{"a":' * 20_000
    return mutated_text(json.dumps(value, indent=2), chance)

"""From the tables of a TOML file to checked settings, and back.

The dataclasses here are any whose fields were declared with ``fields.setting``; ``source`` names
the recipe in messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bihm_repro.errors import InputError
from bihm_repro.files import parse_toml
from bihm_repro.recipes.extends import suggestion
from bihm_repro.recipes.fields import Setting

__all__ = ["checked", "deciding", "flat", "override", "plain", "refuse_unknown", "section"]


def override(content: dict[str, Any], assignment: str) -> None:
    """Apply an assignment such as ``model.layers=[9, 3]``; a value that is not TOML is a text."""
    key, equals, text = assignment.partition("=")
    key = key.strip()
    if not equals or not key:
        raise InputError(
            f"--set {assignment}: write it as section.field=value, such as model.layers=[200,100]"
        )
    try:
        value = parse_toml(f"value = {text}", key)["value"]
    except InputError:
        value = text.strip()
    *path, last = key.split(".")
    place: Any = content
    for step in path:
        if isinstance(place, list):
            place = _phase_at(place, step, assignment)
        else:
            place = place.setdefault(step, {})
        if not isinstance(place, (dict, list)):
            raise InputError(f"--set {assignment}: {step} is a value, not a section")
    if isinstance(place, list):
        raise InputError(
            f"--set {assignment}: say which setting of phase {last}, such as "
            f"phases.{last}.samples=10"
        )
    place[last] = value


def _phase_at(phases: list[Any], step: str, assignment: str) -> Any:
    if not (step.isascii() and step.isdigit()) or int(step[:9]) >= len(phases):
        raise InputError(
            f"--set {assignment}: there is no phase {step}; "
            f"the recipe's phases are 0 to {len(phases) - 1}"
        )
    return phases[int(step)]


def section(kind: type, content: Any, name: str, source: str) -> Any:
    """Return the dataclass ``kind`` with the settings of the table ``content``."""
    if not isinstance(content, Mapping):
        raise InputError(f"{source}: {name} = {content!r}: must be a table of settings")
    refuse_unknown(content, [item.name for item in fields(kind)], name, source)
    return kind(
        **{item.name: checked(kind, item.name, content, name, source) for item in fields(kind)}
    )


def checked(kind: type, name: str, content: Mapping[str, Any], section: str, source: str) -> Any:
    """Return the setting ``name`` of ``content``, converted, or its default."""
    item = next(item for item in fields(kind) if item.name == name)
    if name not in content:
        return item.default
    rule: Setting = item.metadata["setting"]
    try:
        return rule.convert(content[name])
    except (TypeError, ValueError, OverflowError):
        where = f"{section}.{name}" if section else name
        near = suggestion(content[name], rule.choices)
        raise InputError(
            f"{source}: {where} = {content[name]!r}: must be {rule.allowed}{near}"
        ) from None


def refuse_unknown(content: Mapping[str, Any], known: list[str], section: str, source: str) -> None:
    """Refuse settings that are not among the ``known``."""
    for key in content:
        if key not in known:
            where = f"{section}.{key}" if section else key
            raise InputError(
                f"{source}: {where}: unknown setting{suggestion(key, known)}; "
                f"known here: {', '.join(known)}"
            )


def deciding(value: Any, defaults: bool) -> dict[str, Any]:
    """Return the settings of a dataclass that decide the result of training.

    Without ``defaults``, settings that were added later are left out at their default.
    """
    kept = {}
    for item in fields(value):
        facts, found = item.metadata, getattr(value, item.name)
        if facts and facts["decides"] and (defaults or not facts["later"] or found != item.default):
            kept[item.name] = found
    return plain(kept)


def plain(value: Any) -> Any:
    """Return ``value`` as TOML and JSON have it: tuples as lists, without entries of None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one, with names such as ``model.layers``."""
    if not isinstance(value, dict):
        return {prefix: value}
    found: dict[str, Any] = {}
    for key, item in value.items():
        found.update(flat(item, f"{prefix}.{key}" if prefix else key))
    return found

"""Which nodes the pods may go to: `--node_selector` and `--toleration`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from elastic_runtime.errors import InputError, nearest
from elastic_runtime.spec.pairs import pairs

_KEYS = ("key", "operator", "value", "effect", "seconds")
_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WORD = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?{_WORD}")
_VALUE = re.compile(rf"({_WORD})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """Leave to be on nodes with a taint; `seconds` says how long, once a NoExecute one has come."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


def parse_node_selector(text: str) -> dict[str, str]:
    """`pool=train,zone=a`: labels that a node must have, all of them."""
    wanted = pairs(text)
    for key, value in wanted.items():
        _check_label(key, value)
    return wanted


def parse_tolerations(text: str) -> tuple[Toleration, ...]:
    """`key=k,value=v,effect=NoSchedule;key=k2,operator=Exists`: `;` between them, `,` between keys."""
    return tuple(_toleration(pairs(part)) for part in text.split(";") if part.strip(" ,"))


def _toleration(found: dict[str, str]) -> Toleration:
    for name in found:
        if name not in _KEYS:
            raise InputError(f"unknown key {name!r}", remedy=nearest(name, _KEYS))
    key, value, seconds = found.get("key", ""), found.get("value", ""), found.pop("seconds", "")
    operator = found.setdefault("operator", "Equal")
    for given, known in ((operator, _OPERATORS), (found.get("effect", ""), ("", *_EFFECTS))):
        if given not in known:
            raise InputError(f"got {given!r}", remedy=nearest(given, filter(None, known)))
    if operator == "Exists" and value:
        raise InputError(f"{key!r} with operator=Exists takes no value", remedy="leave value or operator out")
    if operator == "Equal" and not key:
        raise InputError(
            "a toleration needs a key", remedy="operator=Exists without a key tolerates every taint"
        )
    if key:
        _check_label(key, value)
    return Toleration(**found, seconds=_whole(seconds, found.get("effect", "")))


def _whole(seconds: str, effect: str) -> int | None:
    if not seconds:
        return None
    if not re.fullmatch("[0-9]{1,9}", seconds):
        raise InputError(f"seconds={seconds} is not a whole number")
    if effect != "NoExecute":
        raise InputError(f"seconds={seconds} goes with effect=NoExecute only", remedy="leave seconds out")
    return int(seconds)


def _check_label(key: str, value: str) -> None:
    if not _KEY.fullmatch(key):
        raise InputError(f"{key!r} cannot be the key of a label", remedy="such as pool or example.com/pool")
    if not _VALUE.fullmatch(value):
        raise InputError(
            f"{value!r} cannot be the value of a label", remedy="letters, digits, '-', '_' and '.'"
        )

"""`k=v,k=v`, the way the tutorials write volumes, resources and environments."""

from __future__ import annotations

import re

from elastic_runtime.errors import InputError

_NEXT_PAIR = re.compile(r"[;,](?=\s*[A-Za-z_]\w*\s*=)|;")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def pairs(text: str) -> dict[str, str]:
    """`k=v,k=v`: blanks are trimmed, empty segments allowed, a key may come only once."""
    return _distinct([_split(segment) for segment in text.split(",") if segment.strip()])


def envs(text: str) -> dict[str, str]:
    """`k1=v1,k2=v2`, where the last comma before the next `=` ends a value, so values may hold commas."""
    if not text.strip(" ,"):
        return {}
    first, *rest = text.split("=")
    keys, values = [first], []
    for place, piece in enumerate(rest, start=1):
        if place == len(rest):
            values.append(piece)
            continue
        value, comma, key = piece.rpartition(",")
        if not comma:
            raise InputError(f"a value may not hold '=': {keys[-1]}={piece}=", remedy="write k1=v1,k2=v2")
        values.append(value)
        keys.append(key)
    for key in keys:
        if not _ENV_NAME.fullmatch(key.strip()):
            raise InputError(f"not the name of a variable: {key.strip()!r}", remedy="write k1=v1,k2=v2")
    if not rest:
        raise InputError(f"{text.strip()!r} has no '='", remedy="write k1=v1,k2=v2")
    return _distinct([(key.strip(), value.strip()) for key, value in zip(keys, values, strict=True)])


def parameters(text: str) -> dict[str, str]:
    """`k=v; k=v`, or with commas as still older commands had it; the values are left as text."""
    return _distinct([_split(segment) for segment in _NEXT_PAIR.split(text) if segment.strip()])


def _split(segment: str) -> tuple[str, str]:
    key, equals, value = segment.partition("=")
    if not equals or not key.strip():
        raise InputError(f"{segment.strip()!r} is not of the form key=value")
    return key.strip(), value.strip()


def _distinct(found: list[tuple[str, str]]) -> dict[str, str]:
    result: dict[str, str] = {}
    for key, value in found:
        if key in result:
            raise InputError(f"{key!r} is given twice: {result[key]!r} and {value!r}")
        result[key] = value
    return result

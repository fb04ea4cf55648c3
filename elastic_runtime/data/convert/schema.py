"""Which features are written, from which columns, as which of the three types a `tf.train.Example` has.

A schema is given as `name:type,...`, `name=column:type,...` or left out; a type left out is inferred from the
first rows. A row that does not fit is a bad row: types are never changed on the way.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elastic_runtime.errors import InputError, nearest

SAMPLE_ROWS = 1000


class Kind(enum.StrEnum):
    """The type of a feature's values."""

    INT = "int"
    FLOAT = "float"
    BYTES = "bytes"


_NAMES = {
    "int": Kind.INT,
    "int64": Kind.INT,
    "float": Kind.FLOAT,
    "float32": Kind.FLOAT,
    "bytes": Kind.BYTES,
    "string": Kind.BYTES,
    "str": Kind.BYTES,
}
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class Column:
    """A feature, the column it comes from, and its type, or None for that to be inferred."""

    feature: str
    origin: str
    kind: Kind | None = None

    def of(self, kind: Kind) -> Column:
        """This column with a type, unless it has one."""
        return self if self.kind else replace(self, kind=kind)


def parse(text: str) -> list[Column]:
    """The columns that a schema names; none if it is empty."""
    columns = [_parse_one(item.strip()) for item in text.split(",")] if text.strip() else []
    features = [column.feature for column in columns]
    for feature in features:
        if features.count(feature) > 1:
            raise InputError(f"feature {feature!r} is named twice", where="schema")
    return columns


def select(text: str, known: Collection[str], where: str) -> list[Column]:
    """The columns of a schema, which must be known; without a schema all that are known."""
    columns = parse(text) or [Column(name, name) for name in known]
    for column in columns:
        if column.origin not in known:
            what = f"there is no column {column.origin!r}"
            raise InputError(what, where=where, remedy=nearest(column.origin, known))
    return columns


def infer(cells: Iterable[str]) -> Kind:
    """The narrowest type that all these texts fit; numbers with gaps are floats, as only these can be NaN."""
    seen = list(cells)
    texts = [cell for cell in seen if cell.strip()]
    for kind in (Kind.INT, Kind.FLOAT) if texts else ():
        if all(_fits(text, kind) for text in texts):
            return kind if len(texts) == len(seen) else Kind.FLOAT
    return Kind.BYTES


def from_text(text: str, kind: Kind) -> bytes | int | float:
    """The value that a text stands for. Nothing is NaN as a float, and no int."""
    try:
        if kind is Kind.BYTES:
            return text.encode()
        if "_" in text:
            raise ValueError  # Python's own notation, not anybody's data
        if kind is Kind.FLOAT:
            return float(text) if text.strip() else float("nan")
        value = int(text)
        if not _INT64.min <= value <= _INT64.max:
            raise ValueError
    except UnicodeEncodeError:
        raise InputError("it is not UTF-8") from None
    except ValueError:
        raise InputError(f"{text!r} is no {kind}") from None
    return value


def _fits(text: str, kind: Kind) -> bool:
    try:
        from_text(text, kind)
    except InputError:
        return False
    is_whole = text.strip().lstrip("+-").isdigit()  # a whole number beyond int64 is a name, and no float
    return not is_whole or kind is Kind.INT or _fits(text, Kind.INT)


def _parse_one(item: str) -> Column:
    name, _, type_name = item.rpartition(":") if ":" in item else (item, "", "")
    feature, _, origin = name.partition("=")
    if not feature or (":" in item and not type_name):
        raise InputError(f"{item!r} is not name:type or name=column:type", where="schema")
    if type_name and type_name not in _NAMES:
        what = f"unknown type {type_name!r} of {feature!r}"
        raise InputError(what, where="schema", remedy=nearest(type_name, _NAMES))
    return Column(feature, origin or feature, _NAMES.get(type_name))


def kind_of(value: Any) -> Kind:
    """The type of a value that has one."""
    if isinstance(value, bool | int):
        return Kind.INT
    if isinstance(value, float):
        return Kind.FLOAT
    if isinstance(value, str | bytes):
        return Kind.BYTES
    raise InputError(f"{value!r} is no number or text")

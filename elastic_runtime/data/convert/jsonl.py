"""JSON lines: each line an object of numbers, texts and lists of these; each key a feature."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from elastic_runtime.data import storage
from elastic_runtime.data.convert.request import ConvertRequest
from elastic_runtime.data.convert.rows import Row, Source, open_plain
from elastic_runtime.data.convert.schema import SAMPLE_ROWS, Column, Kind, from_text, kind_of, parse
from elastic_runtime.data.example import encode
from elastic_runtime.errors import InputError, nearest


def open_jsonl(request: ConvertRequest) -> Source:
    """All lines of the files; without a schema the keys are those of the first rows."""
    files = storage.list_files(request.source)
    rows = _read(files)
    sample = list(itertools.islice(rows, SAMPLE_ROWS))
    kinds = _kinds([row.data for row in sample])
    chosen = parse(request.schema)
    for column in chosen:
        if column.origin not in kinds:
            what = f"there is no key {column.origin!r} in the first rows"
            raise InputError(what, where=files[0], remedy=nearest(column.origin, kinds))
    columns = chosen or [Column(key, key) for key in kinds]
    if sample and not columns:
        raise InputError("the first rows have no keys", where=files[0])
    typed = tuple(column.of(kinds[column.origin]) for column in columns)
    return Source(files, itertools.chain(sample, rows), _Encoder(typed, exact=not chosen))


@dataclass(frozen=True)
class _Encoder:
    columns: tuple[Column, ...]
    exact: bool

    def __call__(self, line: bytes) -> bytes:
        item = _parse(line)
        if self.exact and (unknown := item.keys() - {column.origin for column in self.columns}):
            what = f"key {min(unknown)!r} is not in the first rows"
            raise InputError(what, remedy="name all keys in a schema")
        return encode({column.feature: _value(item, column) for column in self.columns})


def _read(files: list[str]) -> Iterator[Row]:
    for file in files:
        with open_plain(file) as lines:
            for number, line in enumerate(lines, 1):
                text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if text.strip():
                    yield Row(file, number, text.rstrip(b"\r\n"))


def _parse(line: bytes) -> dict[str, Any]:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"it is no JSON: {error}") from None
    if not isinstance(item, dict):
        raise InputError("it is no JSON object")
    return item


def _kinds(lines: list[bytes]) -> dict[str, Kind]:
    """Each key of the readable rows and its type: float if numbers are mixed, bytes if all is text."""
    seen: dict[str, set[Kind]] = {}
    for line in lines:
        try:
            item = _parse(line)
        except InputError:
            continue
        for key, value in item.items():
            found = seen.setdefault(key, set())
            for one in value if isinstance(value, list) else [value]:
                try:
                    found.add(kind_of(one))
                except InputError:
                    continue
    order = (Kind.FLOAT, Kind.INT, Kind.BYTES)
    return {key: next((kind for kind in order if kind in kinds), Kind.BYTES) for key, kinds in seen.items()}


def _value(item: dict[str, Any], column: Column) -> list[bytes | int | float]:
    if column.origin not in item:
        raise InputError(f"there is no key {column.origin!r}")
    value = item[column.origin]
    values = value if isinstance(value, list) else [value]
    try:
        return [_cast(one, column.kind or Kind.BYTES) for one in values]
    except InputError as error:
        raise InputError(error.what, where=f"key {column.origin!r}") from None


def _cast(value: Any, kind: Kind) -> bytes | int | float:
    found = kind_of(value)
    if found is Kind.BYTES and kind is Kind.BYTES:
        return from_text(value, kind)
    if found is Kind.INT and kind is Kind.INT:
        return int(value)
    if found is not Kind.BYTES and kind is Kind.FLOAT:
        with contextlib.suppress(OverflowError):
            return float(value)
    raise InputError(f"{value!r} is no {kind}")

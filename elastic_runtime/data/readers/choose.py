"""Which reader a location gets: by `reader_type` if given, else by the file's name, RecordIO by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from elastic_runtime.data.readers.base import Reader
from elastic_runtime.data.readers.recordio import RecordIOReader
from elastic_runtime.data.readers.text import CSVReader, TextReader
from elastic_runtime.errors import InputError, nearest

_TYPES: dict[str, Callable[..., Reader]] = {"RecordIO": RecordIOReader, "CSV": CSVReader, "TEXT": TextReader}
_PARAMS = {"RecordIO": frozenset[str](), "CSV": frozenset({"sep"}), "TEXT": frozenset[str]()}


def open_reader(origin: str, params: Mapping[str, str] | None = None) -> Reader:
    """The reader of a folder, file, glob or comma-separated list of URIs."""
    options = dict(params or {})
    kind = _kind(options.pop("reader_type", ""), origin)
    for name in options:
        if name not in _PARAMS[kind]:
            hint = nearest(name, {"reader_type", *_PARAMS[kind]})
            raise InputError(f"unknown for {kind} data: {name!r}", where="data_reader_params", remedy=hint)
    return _TYPES[kind](origin, **options)


def _kind(wanted: str, origin: str) -> str:
    if not wanted:
        return "CSV" if origin.endswith((".csv", ".csv.gz")) else "RecordIO"
    by_name = {name.lower(): name for name in _TYPES}
    if wanted.lower() not in by_name:
        hint = nearest(wanted.lower(), by_name)
        raise InputError(f"unknown reader_type {wanted!r}", where="data_reader_params", remedy=hint)
    return by_name[wanted.lower()]

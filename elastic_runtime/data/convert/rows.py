"""The seam between the kinds of sources and the conversion itself."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple, cast

from elastic_runtime.data import storage
from elastic_runtime.data.convert.request import Picture
from elastic_runtime.data.trouble import told
from elastic_runtime.errors import InputError


class Row(NamedTuple):
    """One row as it was read: where, what, and the fault if it could not even be read."""

    file: str
    line: int
    data: Any
    fault: str = ""


@dataclass(frozen=True)
class Source:
    """A dataset: its rows, read by one process, and how any process makes a record of a row's data.

    `encode` raises an `InputError` for a row that it cannot take, and must be picklable.
    """

    files: Sequence[str]
    rows: Iterator[Row]
    encode: Callable[[Any], bytes]
    total: int | None = None
    unit: str = "line"
    pictures: Mapping[str, Picture] = field(default_factory=dict)


@contextlib.contextmanager
def open_plain(uri: str) -> Iterator[BinaryIO]:
    """A file to read, unpacked if its name ends in `.gz`; what cannot be read is an `InputError`."""
    try:
        with told("read", uri), storage.open_input(uri) as file:
            yield cast("BinaryIO", gzip.GzipFile(fileobj=file)) if uri.endswith(".gz") else file
    except zlib.error as error:
        raise InputError(f"cannot be read: {error}", where=uri) from error

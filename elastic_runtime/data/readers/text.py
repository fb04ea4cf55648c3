"""Text files as sources: each line a record, its bytes as they are in the file, without the line's end.

A file is scanned once for its number of lines; the place of every 1024th is kept, so that a range is read
with one seek. In CSV a quoted newline does not end a row, blank lines are no rows, and the first row names
the columns.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from elastic_runtime.data import storage
from elastic_runtime.data.readers.base import Metadata, Source
from elastic_runtime.data.trouble import told
from elastic_runtime.errors import ElasticError, InputError

_STRIDE = 1024
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class _Lines:
    """How many lines of data a file has, and where every `_STRIDE`th of them begins."""

    count: int
    places: list[int]


class TextReader:
    """All lines of the text files at a location."""

    metadata = Metadata()

    def __init__(self, origin: str) -> None:
        self._files = storage.list_files(origin)
        self._lines: dict[str, _Lines] = {}
        for file in self._files:
            if file.endswith((".gz", ".bz2", ".xz", ".zip")):
                remedy = "unpack it, or convert it with `elasticdl data convert`"
                raise InputError("a compressed file cannot be read by ranges", where=file, remedy=remedy)

    def sources(self) -> list[Source]:
        """Each file and its number of lines."""
        return [Source(name, self._scanned(name).count) for name in self._files]

    def read(self, source: str, start: int, end: int) -> list[bytes]:
        """Exactly the lines from `start` to `end` of a file."""
        lines = self._scanned(source)
        if not 0 <= start <= end <= lines.count:
            raise InputError(f"records {start} to {end} are asked of {lines.count}", where=source)
        if start == end:
            return []
        ahead = start % _STRIDE
        with _open(source) as file:
            file.seek(lines.places[start // _STRIDE])
            wanted = itertools.islice(self._walk(file, source), ahead, ahead + end - start)
            records = [line for _, line in wanted]
        if len(records) != end - start:
            raise ElasticError(f"it became shorter: no record {start + len(records)} any more", where=source)
        return records

    def _scanned(self, source: str) -> _Lines:
        if source not in self._lines:
            with _open(source) as file:
                begin = self._skip_header(file, source)
                file.seek(begin)
                places = []
                count = 0
                for offset, _ in self._walk(file, source):
                    if count % _STRIDE == 0:
                        places.append(begin + offset)
                    count += 1
            self._lines[source] = _Lines(count, places)
        return self._lines[source]

    def _skip_header(self, file: BinaryIO, source: str) -> int:  # noqa: ARG002 - for CSV
        """Where the first line of data begins."""
        return 0

    def _walk(self, file: BinaryIO, source: str) -> Iterator[tuple[int, bytes]]:  # noqa: ARG002 - for CSV
        """Each line from here on, with its offset from here."""
        offset = 0
        for line in file:
            yield offset, _without_end(line)
            offset += len(line)


class CSVReader(TextReader):
    """All rows of the CSV files at a location, whose headers must be the same."""

    def __init__(self, origin: str, sep: str = ",") -> None:
        super().__init__(origin)
        if len(sep) != 1:
            raise InputError(f"sep={sep!r} is not one character", where="data_reader_params")
        self._sep = sep
        first = self._files[0]
        with _open(first) as file:
            self._columns, _ = self._header(file, first)
        self.metadata = Metadata(column_names=self._columns)

    def _skip_header(self, file: BinaryIO, source: str) -> int:
        columns, size = self._header(file, source)
        if columns != self._columns:
            raise InputError(f"its columns differ from those of {self._files[0]}", where=source)
        return size

    def _header(self, file: BinaryIO, source: str) -> tuple[list[str], int]:
        _, row = next(self._walk(file, source), (0, b""))
        try:
            columns = next(csv.reader([row.removeprefix(_BOM).decode()], delimiter=self._sep), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"its first row is no CSV header: {error}", where=source) from error
        if not columns:
            raise InputError("it has no header row that names the columns", where=source)
        return columns, file.tell()

    def _walk(self, file: BinaryIO, source: str) -> Iterator[tuple[int, bytes]]:
        begin = offset = 0
        row: list[bytes] = []
        quotes = 0
        for line in file:
            row.append(line)
            offset += len(line)
            quotes += line.count(b'"')
            if quotes % 2 == 0:
                whole = _without_end(b"".join(row))
                if whole:
                    yield begin, whole
                begin, row, quotes = offset, [], 0
        if row:
            raise ElasticError(
                f"a quote is never closed, {offset - begin} bytes before the end", where=source
            )


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


@contextmanager
def _open(source: str) -> Iterator[BinaryIO]:
    with told("read", source), storage.open_input(source) as file:
        yield file

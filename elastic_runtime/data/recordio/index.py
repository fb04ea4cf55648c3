"""Where the chunks of a RecordIO file are and which records they hold.

The format stores no index. It is made by reading the headers alone, 20 bytes a chunk, so even a large file
takes milliseconds; a file that cannot be whole is found out here already.
"""

from __future__ import annotations

import bisect
import io
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Self

from elastic_runtime.data import storage
from elastic_runtime.data.recordio.codec import (
    HEADER_BYTES,
    DamageError,
    Header,
    RecordIOError,
    decode_header,
)
from elastic_runtime.data.trouble import told

_REMEDY = "restore the file or convert its source again"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk's place: byte offset in the file, number of its first record, and its header."""

    offset: int
    first: int
    header: Header

    @property
    def end(self) -> int:
        """The number after its last record."""
        return self.first + self.header.count


class Index:
    """The chunks of one file, as pyrecordio's `Index`; a snapshot of the file as it was."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open_file(path) as file, told("read", path, verdict=RecordIOError):
            self.chunks = tuple(_scan(file, path))
        self._ends = [chunk.end for chunk in self.chunks]

    @property
    def file_bytes(self) -> int:
        """The size of the file."""
        return self.chunks[-1].offset + HEADER_BYTES + self.chunks[-1].header.size if self.chunks else 0

    def num_records(self) -> int:
        """How many records the file holds."""
        return self._ends[-1] if self._ends else 0

    def chunk_of(self, record: int) -> Chunk:
        """The chunk that holds this record."""
        return self.chunks[bisect.bisect_right(self._ends, record)]

    def close(self) -> None:
        """Nothing is held open; kept for pyrecordio's users."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


def count(path: str) -> int:
    """How many records a file holds."""
    return Index(path).num_records()


def open_file(path: str) -> BinaryIO:
    """Open a RecordIO file for reading."""
    with told("opened", path, verdict=RecordIOError):
        return storage.open_input(path)


def damaged(path: str, offset: int, records: str, damage: DamageError) -> RecordIOError:
    """The error that names file, offset and record range."""
    return RecordIOError(str(damage), where=f"{path}, byte {offset}, {records}", remedy=_REMEDY)


def _scan(file: BinaryIO, path: str) -> Iterator[Chunk]:
    size = file.seek(0, io.SEEK_END)
    offset = first = 0
    while offset < size:
        file.seek(offset)
        try:
            header = decode_header(file.read(HEADER_BYTES), size - offset - HEADER_BYTES)
        except DamageError as damage:
            raise damaged(path, offset, f"records from {first} on", damage) from None
        yield Chunk(offset, first, header)
        offset += HEADER_BYTES + header.size
        first += header.count

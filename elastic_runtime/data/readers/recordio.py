"""RecordIO files as sources: one per file, counted from their headers, each indexed once."""

from __future__ import annotations

from elastic_runtime.data import storage
from elastic_runtime.data.readers.base import Metadata, Source
from elastic_runtime.data.recordio import Index, read_range


class RecordIOReader:
    """All RecordIO files at a location. A file of another kind among them is an error that names it."""

    metadata = Metadata()

    def __init__(self, origin: str) -> None:
        self._files = storage.list_files(origin)
        self._indexes: dict[str, Index] = {}

    def sources(self) -> list[Source]:
        """Each file and its number of records."""
        return [Source(name, self._index(name).num_records()) for name in self._files]

    def read(self, source: str, start: int, end: int) -> list[bytes]:
        """Exactly the records from `start` to `end` of a file."""
        return read_range(source, start, end, self._index(source))

    def _index(self, source: str) -> Index:
        if source not in self._indexes:
            self._indexes[source] = Index(source)
        return self._indexes[source]

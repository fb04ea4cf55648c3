"""Readers as the old ElasticDL had them: `read_records(task)`, `create_shards()`, `metadata`.

Model modules build on `RecordIODataReader` in their `custom_data_reader`, or bring a reader of their own;
`adapt` makes either a `Reader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from elastic_runtime.data.readers.base import Metadata, Reader, Source
from elastic_runtime.data.readers.recordio import RecordIOReader
from elastic_runtime.errors import ElasticError, InputError


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of a task that a reader looks at."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Task:
    """What an old reader is asked to read."""

    shard: Shard


class OldReader(Protocol):
    """The interface of the old ElasticDL."""

    def read_records(self, task: Any) -> Iterable[bytes]:
        """The records of `task.shard`."""
        ...

    def create_shards(self) -> Any:
        """The sources: (name, start, count) each, or a mapping from name to (start, count)."""
        ...


class RecordIODataReader:
    """RecordIO files of a folder, under the old name and with the old methods."""

    def __init__(self, data_dir: str) -> None:
        self._reader = RecordIOReader(data_dir)

    def read_records(self, task: Any) -> Iterator[bytes]:
        """The records of `task.shard`, whose `end` is not included."""
        yield from self._reader.read(task.shard.name, task.shard.start, task.shard.end)

    def create_shards(self) -> list[tuple[str, int, int]]:
        """Each file as (name, 0, records)."""
        return [(source.name, source.start, source.records) for source in self._reader.sources()]

    @property
    def records_output_types(self) -> Any:
        """TensorFlow's type of a record."""
        return "string"

    @property
    def metadata(self) -> Metadata:
        """Nothing is known about columns."""
        return self._reader.metadata


def adapt(reader: Any) -> Reader:
    """A user's reader of the old kind, as one of ours; a reader of ours passes through."""
    if hasattr(reader, "sources") and hasattr(reader, "read"):
        return reader  # type: ignore[no-any-return]
    for method in ("read_records", "create_shards"):
        if not callable(getattr(reader, method, None)):
            what = f"the reader {type(reader).__name__} has no method {method}"
            remedy = "it needs read_records(task) and create_shards()"
            raise InputError(what, where="custom_data_reader", remedy=remedy)
    return _Adapted(reader)


class _Adapted:
    def __init__(self, reader: OldReader) -> None:
        self._reader = reader
        theirs = getattr(reader, "metadata", None)
        names = getattr(theirs, "column_names", None)
        self.metadata = Metadata(list(names) if names else None, getattr(theirs, "column_dtypes", None))

    def sources(self) -> list[Source]:
        shards = self._reader.create_shards()
        rows = [(name, *place) for name, place in shards.items()] if isinstance(shards, dict) else shards
        try:
            return [Source(str(name), int(records), int(start)) for name, start, records in rows]
        except (TypeError, ValueError) as error:
            what = "create_shards() must give (name, start, count) for each source"
            raise InputError(what, where=type(self._reader).__name__) from error

    def read(self, source: str, start: int, end: int) -> list[bytes]:
        records = list(self._reader.read_records(Task(Shard(source, start, end))))
        if len(records) != end - start:
            what = f"read_records gave {len(records)} records for {start} to {end}"
            raise ElasticError(what, where=f"{type(self._reader).__name__}, {source}")
        return records

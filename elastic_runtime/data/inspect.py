"""What is in RecordIO files, and whether all of it can be read: for people, not for training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from elastic_runtime.data import storage
from elastic_runtime.data.example import ExampleError, Feature, decode
from elastic_runtime.data.recordio import Index, RecordIOError, read_blocks, read_range


@dataclass(frozen=True)
class FileFacts:
    """One file by its headers."""

    file: str
    records: int
    chunks: int
    bytes: int
    compressors: list[str]


@dataclass(frozen=True)
class Verdict:
    """One file read from end to end: the damage, or nothing."""

    file: str
    records: int
    error: str


def facts(origin: str) -> list[FileFacts]:
    """All files at a location."""
    return [_facts(file) for file in storage.list_files(origin)]


def head(origin: str, count: int) -> Iterator[bytes]:
    """The first records at a location."""
    for file in storage.list_files(origin):
        index = Index(file)
        found = min(count, index.num_records())
        yield from read_range(file, 0, found, index)
        count -= found
        if not count:
            return


def verify(origin: str, progress: Callable[[int], None] | None = None) -> Iterator[Verdict]:
    """Read every record of every file; `progress` is told how many more were read."""
    for file in storage.list_files(origin):
        records, error = 0, ""
        try:
            for block in read_blocks(file):
                records += len(block)
                if progress:
                    progress(len(block))
        except RecordIOError as damage:
            error = str(damage)
        yield Verdict(file, records, error)


def readable(record: bytes) -> dict[str, Any] | None:
    """A record's features in a form that JSON can show; None if it is no `tf.train.Example`."""
    try:
        features = decode(record)
    except ExampleError:
        return None
    return {name: _shown(feature) for name, feature in sorted(features.items())}


def kinds(record: bytes) -> dict[str, str] | None:
    """A record's features as `float x 784`; None if it is no `tf.train.Example`."""
    try:
        features = decode(record)
    except ExampleError:
        return None
    return {name: f"{_kind(feature)} x {len(feature)}" for name, feature in sorted(features.items())}


def _facts(file: str) -> FileFacts:
    index = Index(file)
    compressors = sorted({chunk.header.compressor.name.lower() for chunk in index.chunks})
    return FileFacts(file, index.num_records(), len(index.chunks), index.file_bytes, compressors)


def _kind(feature: Feature) -> str:
    if isinstance(feature, list):
        return "bytes"
    return "float" if feature.dtype.kind == "f" else "int"


def _shown(feature: Feature) -> list[Any]:
    if isinstance(feature, list):
        return [value.decode(errors="backslashreplace") for value in feature]
    numbers: list[Any] = feature.tolist()
    return numbers

"""One file of a checkpoint: what one writer held of the model, streamed out and checked when read.

magic, header length, header (JSON: what and where), the arrays as raw little-endian bytes, CRC-32 of all
that. The header gives each array's range of the whole model, so `gather` puts together any part out of any
writers' files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Generic, TypeVar

import numpy as np

from elastic_runtime.errors import ElasticError
from elastic_runtime.ps.copies import CHUNK, Copy, chunks_of
from elastic_runtime.ps.rows import TableSpec, TableState
from elastic_runtime.rpc.layout import Layout, part

_MAGIC = b"EDLPART1"
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_DAMAGED = "is damaged: wrong checksum"
Values = TypeVar("Values", np.ndarray, Copy)


@dataclass(frozen=True)
class PartState(Generic[Values]):
    """A part of the model, or all of it, as it is saved; `Copy` where it is being trained on meanwhile."""

    layout: Layout
    optimizer: Mapping[str, object]
    version: int
    weights: Values
    state: Values
    slots: Mapping[str, Values] = field(default_factory=dict)
    tables: Mapping[str, TableState] = field(default_factory=dict)
    era: int = 0
    step: int = 0
    """How many updates the slots have seen."""
    seed: int = 0
    """Of the first values of tables."""


def write(path: pathlib.Path, index: int, parts: int, state: PartState[Values]) -> pathlib.Path:
    """Write under a temporary name and rename; on any failure nothing is left."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as file:
            _stream(file, _header(index, parts, state), state)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        what = f"cannot write the checkpoint: {error.strerror}"
        raise ElasticError(what, where=str(path), remedy="free space, or another --checkpoint_dir") from error
    return path


def gather(paths: Sequence[pathlib.Path], index: int, parts: int) -> PartState[np.ndarray]:
    """The part `index` of `parts` of the model that these files make up."""
    headers = [read_header(path) for path in paths]
    first = headers[0]
    layout = Layout.from_json(json.dumps(first["layout"]))
    names = [name for name in first["arrays"] if all(name in header["arrays"] for header in headers)]
    targets = {name: _Target(*part(_count(layout, name), index, parts)) for name in names}
    tables: dict[str, list[TableState]] = {}
    for path in paths:
        header, body = _load(path)
        if header["layout_digest"] != layout.digest or header["version"] != first["version"]:
            raise ElasticError("is of another model or version than the first part", where=str(path))
        for name, target in targets.items():
            target.take(header["arrays"][name], body)
        for name, entry in header["tables"].items():
            tables.setdefault(name, []).append(_table(entry, body).of(index, parts))
    for name, target in targets.items():
        if target.missing:
            raise ElasticError(
                f"{target.missing} values of {name} are in none of its files", where=str(paths[0].parent)
            )
    slots = {name.removeprefix("slot/"): targets[name].values for name in names if name.startswith("slot/")}
    return PartState(
        layout=layout,
        optimizer=first["optimizer"],
        version=first["version"],
        weights=targets["weights"].values,
        state=targets["state"].values,
        slots=slots,
        tables={name: TableState.joined(each) for name, each in tables.items()},
        era=first["era"],
        step=first["step"],
        seed=first["seed"],
    )


def verify(path: pathlib.Path) -> None:
    """Check every byte of a file, in little memory."""
    read_header(path)
    crc, left = 0, path.stat().st_size - _CRC.size
    with _told(path), path.open("rb") as file:
        while left > 0 and (chunk := file.read(min(left, CHUNK))):
            crc = zlib.crc32(chunk, crc)
            left -= len(chunk)
    if crc != crc_of(path):
        raise ElasticError(_DAMAGED, where=str(path))


def read_header(path: pathlib.Path) -> dict[str, Any]:
    """What is in a file."""
    with _told(path), path.open("rb") as file:
        return _parse_header(path, file.read(len(_MAGIC) + _LENGTH.size), file.read)


def crc_of(path: pathlib.Path) -> int:
    """The checksum at the file's end."""
    with _told(path), path.open("rb") as file:
        file.seek(-_CRC.size, os.SEEK_END)
        return int(_CRC.unpack(file.read())[0])


@dataclass
class _Target:
    """A range of the whole model being put together."""

    start: int
    end: int

    def __post_init__(self) -> None:
        self.values = np.empty(self.end - self.start, np.float32)
        self.missing = self.values.size

    def take(self, place: Mapping[str, int], body: memoryview) -> None:
        low, high = max(self.start, place["start"]), min(self.end, place["start"] + place["count"])
        if low < high:
            offset = place["offset"] + (low - place["start"]) * 4
            found = np.frombuffer(body, "<f4", high - low, offset)
            self.values[low - self.start : high - self.start] = found
            self.missing -= high - low


def _arrays(state: PartState[Values]) -> dict[str, Values]:
    slots = {f"slot/{name}": values for name, values in state.slots.items()}
    return {"weights": state.weights, "state": state.state} | slots


def _count(layout: Layout, name: str) -> int:
    return layout.state_count if name == "state" else layout.weight_count


def _header(index: int, parts: int, state: PartState[Values]) -> bytes:
    places, offset = {}, 0
    for name, values in _arrays(state).items():
        start, end = part(_count(state.layout, name), index, parts)
        if values.nbytes != 4 * (end - start):
            raise ValueError(f"{name} has {values.nbytes} bytes, its part is {4 * (end - start)}")
        places[name] = {"start": start, "count": end - start, "offset": offset}
        offset += values.nbytes
    tables: dict[str, Any] = {}
    for name, table in state.tables.items():
        tables[name] = {"spec": dataclasses.asdict(table.spec), "rows": len(table.ids), "offsets": {}}
        for array, rows in _table_arrays(table).items():
            tables[name]["offsets"][array] = offset
            offset += rows.nbytes
    header = {
        "version": state.version,
        "era": state.era,
        "step": state.step,
        "seed": state.seed,
        "optimizer": dict(state.optimizer),
        "layout": json.loads(state.layout.to_json()),
        "layout_digest": state.layout.digest,
        "arrays": places,
        "tables": tables,
    }
    return json.dumps(header).encode()


def _table_arrays(table: TableState) -> dict[str, np.ndarray]:
    slots = {f"slot/{name}": values for name, values in table.slots.items()}
    return {"ids": table.ids, "values": table.values} | slots


def _table(entry: Mapping[str, Any], body: memoryview) -> TableState:
    """The rows of a table in one file."""
    spec, count = TableSpec(**entry["spec"]), entry["rows"]

    def rows(array: str) -> np.ndarray:
        flat = np.frombuffer(body, "<f4", count * spec.dimension, entry["offsets"][array])
        return flat.reshape(count, spec.dimension)

    slots = {
        array.removeprefix("slot/"): rows(array) for array in entry["offsets"] if array.startswith("slot/")
    }
    ids = np.frombuffer(body, "<i8", count, entry["offsets"]["ids"])
    return TableState(spec, ids, rows("values"), slots)


def _stream(file: BinaryIO, header: bytes, state: PartState[Values]) -> None:
    crc = 0
    arrays: list[np.ndarray | Copy] = [*_arrays(state).values()]
    arrays += [rows for table in state.tables.values() for rows in _table_arrays(table).values()]
    for chunk in itertools.chain((_MAGIC, _LENGTH.pack(len(header)), header), *map(_chunks, arrays)):
        crc = zlib.crc32(chunk, crc)
        file.write(chunk)
    file.write(_CRC.pack(crc))


def _chunks(values: np.ndarray | Copy) -> Iterator[bytes]:
    if isinstance(values, Copy):
        yield from values.chunks()
    else:
        yield from chunks_of(np.ascontiguousarray(values))


def _load(path: pathlib.Path) -> tuple[dict[str, Any], memoryview]:
    """The header and all arrays of a file whose every byte is checked."""
    with _told(path):
        content = memoryview(path.read_bytes())
    if len(content) < _CRC.size or zlib.crc32(content[: -_CRC.size]) != _CRC.unpack(content[-_CRC.size :])[0]:
        raise ElasticError(_DAMAGED, where=str(path))
    begin = len(_MAGIC) + _LENGTH.size
    header = _parse_header(
        path, bytes(content[:begin]), lambda length: bytes(content[begin : begin + length])
    )
    return header, content[begin + _LENGTH.unpack(content[len(_MAGIC) : begin])[0] : -_CRC.size]


def _parse_header(path: pathlib.Path, start: bytes, read: Any) -> dict[str, Any]:
    try:
        if not start.startswith(_MAGIC):
            raise ValueError("no magic bytes")
        header: dict[str, Any] = json.loads(read(_LENGTH.unpack(start[len(_MAGIC) :])[0]))
        wanted = {
            "version",
            "era",
            "step",
            "optimizer",
            "layout",
            "layout_digest",
            "arrays",
            "tables",
            "seed",
        }
        if not wanted <= header.keys() or not {"weights", "state"} <= header["arrays"].keys():
            raise ValueError("entries are missing")
    except (ValueError, struct.error, AttributeError, OverflowError, MemoryError) as error:
        raise ElasticError(f"is no part of a checkpoint: {error}", where=str(path)) from None
    return header


@contextlib.contextmanager
def _told(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ElasticError(f"cannot be read: {error.strerror}", where=str(path)) from error

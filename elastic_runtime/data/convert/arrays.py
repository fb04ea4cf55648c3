"""Arrays that have one row a record: a `.npz` file, or idx files (the format of MNIST), plain or gzipped.

An array of an idx file is called as the file is, without folder and `.gz`.
"""

from __future__ import annotations

import math
import posixpath
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from elastic_runtime.data import storage
from elastic_runtime.data.convert.request import ConvertRequest, Picture
from elastic_runtime.data.convert.rows import Row, Source, open_plain
from elastic_runtime.data.convert.schema import Column, Kind, select
from elastic_runtime.data.example import encode
from elastic_runtime.data.trouble import told
from elastic_runtime.errors import InputError

Array = npt.NDArray[Any]
_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_KINDS = {"b": Kind.INT, "i": Kind.INT, "u": Kind.INT, "f": Kind.FLOAT, "S": Kind.BYTES, "U": Kind.BYTES}
_SMALLEST_PICTURE = 8
"""Fewer numbers beside or below each other are rather a table."""
_NPZ_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    OSError,
    EOFError,
    KeyError,
    RuntimeError,
    MemoryError,
)


def open_arrays(request: ConvertRequest) -> Source:
    """One record for each row of the arrays, which must be of equal length."""
    arrays = load_arrays(request.source)
    columns = select(request.schema, list(arrays), request.source)
    chosen = [arrays[column.origin] for column in columns]
    lengths = {c.origin: len(a) if a.ndim else 0 for c, a in zip(columns, chosen, strict=True)}
    if len(set(lengths.values())) != 1:
        found = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        remedy = "choose those that belong together: --schema image=x_train,label=y_train"
        raise InputError(f"the arrays differ in length ({found})", where=request.source, remedy=remedy)
    typed = tuple(_typed(c, a, request.source) for c, a in zip(columns, chosen, strict=True))
    total = next(iter(lengths.values()))
    return Source(
        storage.list_files(request.source),
        _rows(request.source, chosen, total),
        _Encoder(typed),
        total,
        unit="row",
        pictures={c.feature: shape for c, a in zip(typed, chosen, strict=True) if (shape := _picture(c, a))},
    )


def load_arrays(source: str) -> Mapping[str, Array]:
    """The arrays of a `.npz`, read when asked for, or of all idx files at a location."""
    files = storage.list_files(source)
    if len(files) == 1 and files[0].endswith(".npz"):
        return _Npz(files[0])
    return {posixpath.basename(file).removesuffix(".gz"): _read_idx(file) for file in files}


class _Npz(Mapping[str, Array]):
    def __init__(self, file: str) -> None:
        self._file = file
        try:
            with told("read", file), storage.open_input(file) as data:
                names = zipfile.ZipFile(data).namelist()
        except _NPZ_DAMAGE as error:
            raise InputError(f"is no .npz file: {error}", where=file) from error
        self._names = [name.removesuffix(".npy") for name in names]

    def __getitem__(self, name: str) -> Array:
        try:
            with (
                told("read", self._file),
                storage.open_input(self._file) as data,
                np.load(data, allow_pickle=False) as archive,
            ):
                array: Array = archive[name]
        except _NPZ_DAMAGE as error:
            raise InputError(f"array {name!r} cannot be read: {error}", where=self._file) from error
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class _Encoder:
    columns: tuple[Column, ...]

    def __call__(self, values: tuple[Any, ...]) -> bytes:
        return encode({c.feature: _cast(v, c.kind) for c, v in zip(self.columns, values, strict=True)})


def _rows(source: str, arrays: list[Array], total: int) -> Iterator[Row]:
    for i in range(total):
        yield Row(source, i, tuple(array[i] for array in arrays))


def _typed(column: Column, array: Array, source: str) -> Column:
    natural = _KINDS.get(array.dtype.kind)
    if natural is None:
        what = f"array {column.origin!r} of {array.dtype} holds no numbers or texts"
        raise InputError(what, where=source)
    allowed = {Kind.INT: set(Kind), Kind.FLOAT: {Kind.FLOAT}, Kind.BYTES: {Kind.BYTES}}[natural]
    if column.kind and column.kind not in allowed:
        raise InputError(f"array {column.origin!r} of {array.dtype} is no {column.kind}", where=source)
    return column.of(natural)


def _picture(column: Column, array: Array) -> Picture | None:
    """What a row of numbers shows, if it has the form of one: two dimensions, or a third of colours."""
    height, width, colours = (*array.shape[1:], 1, 1)[:3] if array.ndim in (3, 4) else (0, 0, 0)
    is_one = min(height, width) >= _SMALLEST_PICTURE and colours in (1, 3, 4)
    return (height, width, colours) if is_one and column.kind is not Kind.BYTES else None


def _cast(value: Any, kind: Kind | None) -> Any:
    if kind is Kind.FLOAT:
        return np.asarray(value, np.float32) if value.dtype.kind in "biu" else value
    if kind is Kind.BYTES and value.dtype.kind in "biu":
        return value.tobytes()
    return value


def _read_idx(file: str) -> Array:
    with open_plain(file) as data:
        magic = data.read(4)
        if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_TYPES:
            raise InputError("is no idx file", where=file)
        sizes = data.read(4 * magic[3])
        if len(sizes) < 4 * magic[3]:
            raise InputError("the idx file is cut off", where=file)
        shape = struct.unpack(f">{magic[3]}I", sizes)
        kind = np.dtype(_IDX_TYPES[magic[2]])
        body = data.read()
    if len(body) != math.prod(shape) * kind.itemsize:
        raise InputError(f"the idx file has {len(body)} bytes, not {shape} of {kind}", where=file)
    return np.frombuffer(body, kind).reshape(shape).astype(kind.newbyteorder("="))

"""TFRecord files: their records, which are `tf.train.Example`s already, are copied as they are.

Both checksums of each record are checked. A wrong one over the data makes a bad row; when a length is wrong
the rest of the file cannot be found any more.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from elastic_runtime.data import storage
from elastic_runtime.data.convert.request import ConvertRequest
from elastic_runtime.data.convert.rows import Row, Source, open_plain
from elastic_runtime.data.crc32c import masked_crc32c
from elastic_runtime.errors import InputError

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


def open_tfrecord(request: ConvertRequest) -> Source:
    """All records of the files."""
    files = storage.list_files(request.source)
    return Source(files, _read(files), bytes, unit="record")


def _read(files: list[str]) -> Iterator[Row]:
    for file in files:
        with open_plain(file) as data:
            number = 0
            while prefix := data.read(12):
                yield _row(data, prefix, file, number)
                number += 1


def _row(data: BinaryIO, prefix: bytes, file: str, number: int) -> Row:
    where = f"{file}, record {number}"
    if len(prefix) < 12:
        raise InputError("the TFRecord file is cut off", where=where)
    if masked_crc32c(prefix[:8]) != _CHECKSUM.unpack_from(prefix, 8)[0]:
        raise InputError("no TFRecord starts here: the checksum of its length does not match", where=where)
    length = _LENGTH.unpack_from(prefix)[0]
    content = data.read(length)
    tail = data.read(4)
    if len(content) < length or len(tail) < 4:
        raise InputError("the TFRecord file is cut off", where=where)
    sound = masked_crc32c(content) == _CHECKSUM.unpack(tail)[0]
    return Row(file, number, content, fault="" if sound else "its checksum does not match")

"""One chunk of a RecordIO file: records in, bytes out, and back.

A file is chunks back to back: a header of five little-endian uint32 (magic, CRC-32 of the stored body,
compressor, stored size, record count), then the body; uncompressed, it is a uint32 length and the bytes of
each record. Snappy is the framed stream form. Whatever does not fit together exactly raises `DamageError`,
which the callers, who know file and offset, turn into a `RecordIOError`. How much a body may inflate is
settled before memory is taken for it.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import cramjam
import numpy as np

from elastic_runtime.errors import ElasticError

CHUNK_BYTES = 32 << 20  # a chunk is closed before its records would exceed this, prefixes not counted
MAGIC = 0x01020304
MOST_STORED = 0xFFFFFFFF
_HEADER = struct.Struct("<5I")
HEADER_BYTES = _HEADER.size
_LENGTH = struct.Struct("<I")
_SNAPPY_START = b"\xff\x06\x00\x00sNaPpY"
_FRAME_BYTES = 65536
_PADDING = 0x80  # snappy frames of this type and above carry no data


class RecordIOError(ElasticError, RuntimeError):
    """A RecordIO file that cannot be read or written; also a `RuntimeError`, for pyrecordio's users."""


class DamageError(Exception):
    """What is wrong with a chunk, without the place."""


class Compressor(enum.IntEnum):
    """How a chunk's body is stored; the values are those in the file."""

    NONE = 0
    SNAPPY = 1
    GZIP = 2


_MOST_INFLATION = {
    Compressor.NONE: 1,
    Compressor.SNAPPY: 22,
    Compressor.GZIP: 1032,
}  # of the formats themselves


@dataclass(frozen=True, slots=True)
class Header:
    """What a chunk says of itself."""

    checksum: int
    compressor: Compressor
    size: int
    count: int


def encode(
    records: Sequence[bytes], compressor: Compressor, scratch: bytearray
) -> tuple[bytes, memoryview | bytes]:
    """The header and body of a chunk; the body may lie in `scratch`, to be used again."""
    raw = _join(records)
    body: memoryview | bytes
    if compressor is Compressor.SNAPPY:
        grow(scratch, len(raw) + len(raw) // 8 + 1024)
        body = memoryview(scratch)[: cramjam.snappy.compress_into(raw, scratch)]
    elif compressor is Compressor.GZIP:
        body = zlib.compress(raw, 6, 31)
    else:
        body = raw
    if len(body) > MOST_STORED:
        raise DamageError(f"a chunk of {len(body)} bytes is beyond the format's 4 GiB")
    return _HEADER.pack(MAGIC, zlib.crc32(body), compressor, len(body), len(records)), body


def decode_header(data: bytes, space: int) -> Header:
    """Check a header for everything that its 20 bytes and the `space` behind them in the file can tell."""
    if len(data) < HEADER_BYTES:
        raise DamageError(f"{len(data)} stray bytes where a chunk header of {HEADER_BYTES} should be")
    magic, checksum, compressor, size, count = _HEADER.unpack(data)
    if magic != MAGIC:
        raise DamageError(f"no chunk starts here (magic {magic:#010x})")
    if compressor > max(Compressor):
        if 1 <= size <= 3 and count <= space:  # fields of the old header: count, checksum, compressor, size
            raise DamageError("this is the old format of pyrecordio before 0.0.5, which is not supported")
        raise DamageError(f"unknown compressor {compressor}")
    if size > space:
        raise DamageError(f"cut off: {space} of {size} bytes are there")
    header = Header(checksum, Compressor(compressor), size, count)
    if not 0 < 4 * count <= size * _MOST_INFLATION[header.compressor]:
        raise DamageError(f"impossible: {count} records in {size} bytes")
    return header


def decode(header: Header, stored: memoryview, start: int, stop: int, scratch: bytearray) -> list[bytes]:
    """Records `start` to `stop` of a chunk, which is checked whole; `scratch` takes the uncompressed body."""
    if zlib.crc32(stored) != header.checksum:
        raise DamageError("checksum does not match")
    if header.compressor is Compressor.SNAPPY:
        raw = _unsnap(stored, scratch)
    elif header.compressor is Compressor.GZIP:
        raw = _inflate(stored, header.count)
    else:
        raw = stored
    return _split(raw, header.count, start, stop)


def grow(scratch: bytearray, size: int) -> None:
    """Make a buffer at least this long."""
    if len(scratch) < size:
        scratch.extend(bytes(size - len(scratch)))


def _join(records: Sequence[bytes]) -> bytes:
    lengths = set(map(len, records))
    if len(lengths) == 1:
        prefix = _LENGTH.pack(lengths.pop())
        return prefix + prefix.join(records)
    parts = [b""] * (2 * len(records))
    parts[::2] = map(_LENGTH.pack, map(len, records))
    parts[1::2] = records
    return b"".join(parts)


def _split(raw: memoryview, count: int, start: int, stop: int) -> list[bytes]:
    if 4 * count > len(raw):
        raise DamageError(f"{count} records are promised but only {len(raw)} bytes are there")
    length = _LENGTH.unpack_from(raw)[0]
    if length and 1 < count == len(raw) / (4 + length):
        rows = np.frombuffer(raw, dtype=[("length", "<u4"), ("record", f"V{length}")])
        if (rows["length"] == length).all():
            records: list[bytes] = rows["record"][start:stop].tolist()
            return records
    return _split_one_by_one(bytes(raw), count, start, stop)


def _split_one_by_one(raw: bytes, count: int, start: int, stop: int) -> list[bytes]:
    number = int.from_bytes
    records: list[bytes] = []
    take = records.append
    at = 0
    for i in range(count):
        begin = at + 4
        at = begin + number(raw[at:begin], "little")
        if start <= i < stop:
            take(raw[begin:at])
    if at != len(raw):
        raise DamageError(f"its {count} records do not fill its {len(raw)} bytes exactly")
    return records


def _unsnap(stored: memoryview, scratch: bytearray) -> memoryview:
    size = _unsnapped_size(stored)
    grow(scratch, size)
    with memoryview(scratch)[:size] as raw:
        try:
            written = cramjam.snappy.decompress_into(stored, raw)
        except cramjam.DecompressionError as error:
            raise DamageError(f"snappy: {error}") from error
    if written != size:
        raise DamageError("snappy: a frame is not as long as it says")
    return memoryview(scratch)[:size]


def _unsnapped_size(stored: memoryview) -> int:
    """Walk the frames, which say how long they will be: no more memory is taken than that."""
    if stored[:10] != _SNAPPY_START:
        raise DamageError("snappy: the stream does not start with its identifier")
    total, at, end = 0, 0, len(stored)
    while at < end:
        kind, length = stored[at], int.from_bytes(stored[at + 1 : at + 4], "little")
        if at + 4 + length > end:
            raise DamageError("snappy: the last frame is cut off")
        size = 0
        if kind == 0:
            size = _varint(stored[at + 8 : at + 4 + length])
        elif kind == 1:
            size = length - 4
        elif kind < _PADDING:
            raise DamageError(f"snappy: unknown frame type {kind}")
        if not 0 <= size <= _FRAME_BYTES:
            raise DamageError("snappy: a frame of impossible length")
        total += size
        at += 4 + length
    return total


def _varint(data: memoryview) -> int:
    value = 0
    for shift, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value
    return -1


def _inflate(stored: memoryview, count: int) -> memoryview:
    """Gzip, to no more than the chunk rule allows; a record alone in its chunk may be longer."""
    limit = 4 * count + max(CHUNK_BYTES, _MOST_INFLATION[Compressor.SNAPPY] * len(stored))
    stream = zlib.decompressobj(31)
    try:
        raw = stream.decompress(stored, limit + 1)
        if count == 1 and not stream.eof and len(raw) > limit:
            rest = 4 + _LENGTH.unpack_from(raw)[0] - len(raw)
            raw += stream.decompress(stream.unconsumed_tail, max(rest, 0) + 1)
    except zlib.error as error:
        raise DamageError(f"gzip: {error}") from error
    if not stream.eof:
        raise DamageError(f"gzip: it inflates to more than {count} records can be, or is cut off")
    if stream.unused_data:
        raise DamageError("gzip: stray bytes behind the stream")
    return memoryview(raw)

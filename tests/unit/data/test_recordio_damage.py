"""No damage to a RecordIO file is taken for its end or other records, or makes us use much memory."""

from __future__ import annotations

import gzip
import re
import struct
import tracemalloc
import zlib
from pathlib import Path

import cramjam
import pytest

from elastic_runtime.data import recordio
from elastic_runtime.data.recordio import Compressor, Index, RecordIOError, Scanner

RECORDS = [b"hello", b"", b"A" * 40, b"world", b"", b"B" * 8, b"last!"]
RECORDS_SAME_LENGTH = [b"abcd", b"efgh", b"ijkl", b"mnop"]


def read(path: Path, content: bytes) -> list[bytes] | None:
    """All records, or None if an error tells of the damage."""
    path.write_bytes(content)
    try:
        return list(Scanner(str(path)))
    except RecordIOError as error:
        told = str(error)
    assert re.match(rf"{path}, byte \d+, records (from )?\d+ ", told)
    return None


def chunk(body: bytes, compressor: int, count: int) -> bytes:
    return struct.pack("<5I", 0x01020304, zlib.crc32(body), compressor, len(body), count) + body


@pytest.mark.parametrize("records", [RECORDS, RECORDS_SAME_LENGTH])
@pytest.mark.parametrize("compressor", Compressor)
def test_every_flipped_bit_and_byte_is_found(records, compressor, write_records, tmp_path):
    whole = Path(write_records(records, chunk_bytes=46, compressor=compressor)).read_bytes()
    for place in range(len(whole)):
        for flip in (*(1 << bit for bit in range(8)), 0xFF):
            damaged = bytearray(whole)
            damaged[place] ^= flip
            assert read(tmp_path / "damaged", bytes(damaged)) in (None, records), (place, flip)


@pytest.mark.parametrize("compressor", Compressor)
def test_every_cut_is_found_but_one_between_chunks(compressor, write_records, tmp_path):
    path = write_records(RECORDS, chunk_bytes=46, compressor=compressor)
    whole = Path(path).read_bytes()
    ends = {c.offset: RECORDS[: c.first] for c in Index(path).chunks}  # what is left is a legal, shorter file
    assert len(ends) > 1
    for size in range(len(whole)):
        assert read(tmp_path / "cut", whole[:size]) == ends.get(size), size


@pytest.mark.parametrize("stray", [b"\0", b"x" * 19, b"y" * 20, b"z" * 500])
def test_stray_bytes_at_the_end_are_found(stray, write_records, tmp_path):
    whole = Path(write_records(RECORDS)).read_bytes()
    assert read(tmp_path / "stray", whole + stray) is None


def test_the_error_names_offset_and_records_of_the_damaged_chunk(write_records):
    path = Path(write_records([b"%04d" % i for i in range(100)], chunk_bytes=40))
    third = Index(str(path)).chunks[2]
    content = bytearray(path.read_bytes())
    content[third.offset + 30] ^= 1
    path.write_bytes(content)
    with pytest.raises(RecordIOError, match=f"byte {third.offset}, records 20 to 29: checksum") as caught:
        recordio.read_range(str(path), 0, 100)
    assert str(path) in caught.value.where
    assert caught.value.exit_code == 1


def test_damage_is_told_again_when_reading_goes_on(write_records):
    path = Path(write_records(RECORDS))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    scanner = Scanner(str(path))
    for _ in range(2):
        with pytest.raises(RecordIOError):
            scanner.record()


def test_a_file_that_shrinks_after_it_was_indexed_is_found(write_records):
    path = Path(write_records(RECORDS))
    index = Index(str(path))
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(RecordIOError, match="cut off"):
        recordio.read_range(str(path), 0, 1, index)


def test_the_old_format_is_recognised(tmp_path):
    body = bytes(cramjam.snappy.compress_raw(b"\5\0\0\0hello"))
    (tmp_path / "old").write_bytes(struct.pack("<5I", 0x01020304, 1, 0x9ABCDEF0, 2, len(body)) + body)
    with pytest.raises(RecordIOError, match="old format of pyrecordio before"):
        Index(str(tmp_path / "old"))


@pytest.mark.parametrize(
    "content", [b"not RecordIO at all, but text", b"PK\3\4" * 30, bytes(1000), b"\4\3\2\1"]
)
def test_another_kind_of_file_is_refused(content, tmp_path):
    assert read(tmp_path / "other", content) is None


@pytest.mark.parametrize("count", [0, 2, 10**6, 0xFFFFFFFF])
@pytest.mark.parametrize(
    ("compressor", "body"),
    [
        (Compressor.NONE, b"\1\0\0\0x"),
        (Compressor.SNAPPY, bytes(cramjam.snappy.compress(b"\1\0\0\0x"))),
        (Compressor.GZIP, gzip.compress(b"\1\0\0\0x")),
    ],
)
def test_impossible_counts_are_found(compressor, body, count, tmp_path):
    assert read(tmp_path / "count", chunk(body, compressor, count)) is None


@pytest.mark.parametrize(
    "raw", [b"\xff\xff\xff\xff", b"\2\0\0\0x", b"\1\0\0\0xy", b"\0\0\0", b"\0\0\0\0" * 2]
)
def test_lengths_that_do_not_fill_the_body_are_found(raw, tmp_path):
    bodies = [raw, bytes(cramjam.snappy.compress(raw)), gzip.compress(raw)]
    for compressor, body in zip(Compressor, bodies, strict=True):
        assert read(tmp_path / "length", chunk(body, compressor, 1)) is None


@pytest.mark.parametrize("count", [1, 2, 50])
def test_a_gzip_bomb_takes_no_memory_that_its_records_do_not_justify(count, tmp_path):
    bomb = gzip.compress(b"\1\0\0\0x" + bytes(300 << 20))
    tracemalloc.start()
    assert read(tmp_path / "bomb", chunk(bomb, Compressor.GZIP, count)) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


def test_a_snappy_frame_that_claims_too_much_is_refused_before_it_is_unpacked(tmp_path):
    frame = b"\0\x0a\0\0" + b"crc." + b"\xff\xff\xff\x7f" + b"\0\0"
    assert read(tmp_path / "frame", chunk(b"\xff\6\0\0sNaPpY" + frame, Compressor.SNAPPY, 1)) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\6\0\0sNaPpY",
        b"\xff\6\0\0sNaPpX" + b"\1\5\0\0crc.x",
        b"\xff\6\0\0sNaPpY" + b"\1\2\0\0xx",
        b"\xff\6\0\0sNaPpY" + b"\0\4\0\0crc.",
        b"\xff\6\0\0sNaPpY" + b"\2\4\0\0crc.",
        b"\xff\6\0\0sNaPpY" + b"\1",
        b"\xff\6\0\0sNaPpY" + b"\1\x09\0\0" + b"bad." + b"\1\0\0\0x",
    ],
)
def test_malformed_snappy_streams_are_found(body, tmp_path):
    assert read(tmp_path / "snappy", chunk(body, Compressor.SNAPPY, 1)) is None


def test_a_gzip_stream_with_something_behind_it_or_cut_off_is_found(tmp_path):
    whole = gzip.compress(b"\1\0\0\0x")
    for body in (whole + b"x", whole[:-1], whole[:12]):
        assert read(tmp_path / "gzip", chunk(body, Compressor.GZIP, 1)) is None

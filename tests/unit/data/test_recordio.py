"""RecordIO as pyrecordio has it: its files, its interface, its chunk rule."""

from __future__ import annotations

import hashlib
import json
import random
import struct
import tempfile
import tracemalloc
import zlib
from pathlib import Path

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.data import recordio
from elastic_runtime.data.recordio import CHUNK_BYTES, Compressor, Index, RecordIOError, Scanner, Writer
from elastic_runtime.errors import InputError

VECTORS = Path(__file__).parents[2] / "vectors" / "recordio"
MANIFEST = json.loads((VECTORS / "MANIFEST.json").read_text())


def chunk(records: list[bytes], compressor: int, body: bytes) -> bytes:
    return struct.pack("<5I", 0x01020304, zlib.crc32(body), compressor, len(body), len(records)) + body


@pytest.mark.parametrize("name", MANIFEST)
def test_reads_the_files_of_pyrecordio(name):
    records = list(Scanner(str(VECTORS / name)))
    digest = hashlib.sha256(b"".join(struct.pack("<I", len(r)) + r for r in records)).hexdigest()
    assert (len(records), digest) == (MANIFEST[name]["records"], MANIFEST[name]["sha256_of_records"])
    assert recordio.count(str(VECTORS / name)) == len(records)


@pytest.mark.parametrize("name", MANIFEST)
def test_writes_the_same_bytes_as_pyrecordio(name, write_records):
    again = write_records(list(Scanner(str(VECTORS / name))))
    assert Path(again).read_bytes() == (VECTORS / name).read_bytes()


@pytest.mark.parametrize("options", [{}, {"chunk_bytes": 50}, {"compressor": "gzip"}, {"compressor": "none"}])
def test_pyrecordio_reads_what_we_write(options, write_records, pyrecordio):
    records = [b"", b"x" * 200, "zwölf".encode(), b"", b"\0" * 49, b"end"]
    path = write_records(records, name="späße", **options)
    scanner = pyrecordio.Scanner(path)
    assert [scanner.record() for _ in range(len(records) + 1)] == [*records, None]
    scanner.close()


@pytest.mark.parametrize(("size", "chunks"), [(1 << 20, 2), ((1 << 20) + 1, 2), (784, 1)])
def test_closes_chunks_where_pyrecordio_does(size, chunks, tmp_path, pyrecordio):
    mine, theirs = str(tmp_path / "mine"), str(tmp_path / "theirs")
    record = random.Random(1).randbytes(16) * (size // 16) + b"x" * (size % 16)
    for module, path in ((recordio, mine), (pyrecordio, theirs)):
        writer = module.Writer(path)
        for _ in range(33):
            writer.write(record)
        writer.close()
    assert Path(mine).read_bytes() == Path(theirs).read_bytes()
    assert len(Index(mine).chunks) == chunks


def test_a_record_larger_than_a_chunk_gets_its_own(write_records):
    records = [b"a", b"b" * 100, b"c"]
    path = write_records(records, chunk_bytes=10)
    assert [c.header.count for c in Index(path).chunks] == [1, 1, 1]
    assert list(Scanner(path)) == records


def test_a_gzipped_record_beyond_the_chunk_limit_is_read(write_records):
    record = bytes(CHUNK_BYTES + 5000)
    assert list(Scanner(write_records([record], compressor="gzip"))) == [record]


def test_scanner_has_pyrecordios_bounds(write_records):
    path = write_records([b"1", b"2", b""])
    index = Index(path)

    def scan(*bounds: int) -> list[bytes]:
        return list(Scanner(path, *bounds, index=index))

    assert scan(1, 1) == [b"2"]
    assert scan(-5, 2) == [b"1", b"2"]
    assert scan(1, 99) == scan(1, -1) == [b"2", b""]
    assert scan(3) == scan(99) == []
    assert index.num_records() == 3


def test_an_empty_record_is_not_the_end(write_records):
    scanner = Scanner(write_records([b"", b"", b"x"]))
    assert [scanner.record() for _ in range(4)] == [b"", b"", b"x", None]


def test_a_record_must_be_bytes(tmp_path):
    with Writer(str(tmp_path / "f")) as writer, pytest.raises(ValueError, match="must be bytes, got str"):
        writer.write("text")  # type: ignore[arg-type]


def test_a_missing_file_is_a_runtime_error_as_before(tmp_path):
    for open_it in (Index, Scanner):
        with pytest.raises(RuntimeError, match="No such file"):
            open_it(str(tmp_path / "nowhere"))
    with pytest.raises(RecordIOError, match="cannot be created"):
        Writer(str(tmp_path / "no" / "folder"))


@pytest.mark.parametrize(
    "options", [{"chunk_bytes": 0}, {"chunk_bytes": CHUNK_BYTES + 1}, {"compressor": "snapy"}]
)
def test_bad_writer_options_are_refused(options, tmp_path):
    with pytest.raises(InputError):
        Writer(str(tmp_path / "f"), **options)


def test_reads_a_frame_for_each_length_and_record(tmp_path):
    records = [b"one", b"", b"three" * 30]
    pieces = [piece for r in records for piece in (struct.pack("<I", len(r)), r) if piece]
    frames = [bytes(cramjam.snappy.compress(piece)) for piece in pieces]
    body = frames[0][:10] + b"".join(frame[10:] for frame in frames)
    (tmp_path / "f").write_bytes(chunk(records, Compressor.SNAPPY, body))
    assert list(Scanner(str(tmp_path / "f"))) == records


def test_reads_streams_one_after_another_and_padding_frames(tmp_path):
    records = [b"one", b"two"]
    streams = [bytes(cramjam.snappy.compress(struct.pack("<I", len(r)) + r)) for r in records]
    (tmp_path / "f").write_bytes(
        chunk(records, Compressor.SNAPPY, streams[0] + b"\xfe\3\0\0pad" + streams[1])
    )
    assert list(Scanner(str(tmp_path / "f"))) == records


RECORDS = st.lists(st.one_of(st.binary(max_size=40), st.binary(min_size=5, max_size=5)), max_size=40)


@given(RECORDS, st.integers(1, 120), st.sampled_from(Compressor), st.data())
def test_every_range_is_what_was_written(records, chunk_bytes, compressor, data):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/data"
        with Writer(path, chunk_bytes=chunk_bytes, compressor=compressor) as writer:
            for record in records:
                writer.write(record)
        start = data.draw(st.integers(0, len(records)))
        end = data.draw(st.integers(start, len(records)))
        assert recordio.read_range(path, start, end) == records[start:end]
        assert list(Scanner(path, start, end - start)) == records[start:end]
        assert recordio.count(path) == len(records)


def test_a_range_beyond_the_end_is_an_error(write_records):
    path = write_records([b"1", b"2"])
    for start, end in ((0, 3), (2, 1), (-1, 1)):
        with pytest.raises(InputError, match="of 2"):
            recordio.read_range(path, start, end)


def test_a_range_decodes_only_its_own_chunks(write_records):
    path = write_records([b"%04d" % i for i in range(100)], chunk_bytes=40)
    content = bytearray(Path(path).read_bytes())
    content[25] ^= 1  # the first chunk's body
    Path(path).write_bytes(content)
    assert recordio.read_range(path, 50, 60) == [b"%04d" % i for i in range(50, 60)]


@pytest.mark.parametrize("compressor", Compressor)
def test_memory_while_reading_is_bounded_by_a_few_chunks(compressor, write_records):
    chunk_bytes, chunks = 1 << 20, 24
    record = random.Random(2).randbytes(1 << 14)
    path = write_records([record] * (chunks * 64), chunk_bytes=chunk_bytes, compressor=compressor)
    tracemalloc.start()
    read = sum(1 for _ in Scanner(path))
    blocks = sum(len(block) for block in recordio.read_blocks(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read == blocks == chunks * 64
    assert peak < 6 * chunk_bytes


def test_a_writer_that_fails_in_its_block_writes_no_further_chunk(tmp_path):
    path = tmp_path / "f"

    def fail() -> None:
        with Writer(str(path)) as writer:
            writer.write(b"half the job")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_bytes() == b""


def test_locations_may_be_uris():
    with Writer("memory://here/data") as writer:
        writer.write(b"x")
    assert recordio.read_range("memory://here/data", 0, 1) == [b"x"]

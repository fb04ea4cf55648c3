"""Readers name their sources and give exactly the records asked for, or say what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from elastic_runtime.data.readers import Metadata, RecordIODataReader, Source, adapt, open_reader
from elastic_runtime.data.recordio import RecordIOError, Writer
from elastic_runtime.errors import ElasticError, InputError


@pytest.fixture
def folder(tmp_path, write_records) -> Path:
    write_records([b"3", b"4", b""], "train/data-00001")
    write_records([b"0", b"1", b"2"], "train/data-00000")
    return tmp_path / "train"


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_folder_is_its_files_in_order(folder, prefix):
    reader = open_reader(f"{prefix}{folder}")
    first, second = reader.sources()
    assert (first, second) == (Source(f"{folder}/data-00000", 3), Source(f"{folder}/data-00001", 3))
    assert reader.read(first.name, 0, 3) == [b"0", b"1", b"2"]
    assert reader.read(second.name, 1, 3) == [b"4", b""]
    assert reader.metadata == Metadata(None, None)


def test_hidden_and_temporary_files_and_folders_are_no_data(folder):
    for name in (".hidden", "_rejects.jsonl", "data-00002.tmp", "data-00000~"):
        (folder / name).write_text("no RecordIO")
    (folder / "deeper").mkdir()
    assert len(open_reader(str(folder)).sources()) == 2


def test_a_location_may_be_a_file_a_glob_or_a_list(folder):
    one, two = f"{folder}/data-00000", f"{folder}/data-00001"

    def names(origin: str) -> list[str]:
        return [source.name for source in open_reader(origin).sources()]

    assert names(one) == [one]
    assert names(f"{folder}/data-*") == [one, two]
    assert names(f"{two}, {one}") == [two, one]
    with pytest.raises(InputError, match="named twice"):
        names(f"{one},{folder}")


def test_a_name_may_hold_marks_of_globs_and_lists(write_records):
    path = write_records([b"x"], "odd, [name]*?")
    assert open_reader(path).sources() == [Source(path, 1)]


def test_files_may_lie_in_another_storage():
    with Writer("memory://train/data-00000") as writer:
        writer.write(b"x")
    reader = open_reader("memory://train")
    (source,) = reader.sources()
    assert source == Source("memory:///train/data-00000", 1)
    assert reader.read(source.name, 0, 1) == [b"x"]


def test_storage_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(InputError, match=r"s3:// needs a package .*pip install '\.\[s3\]'"):
        open_reader("s3://bucket/train")


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ("{0}/nowhere", "no such file or folder"),
        ("{0}/empty", "holds no data files"),
        ("{0}", "sub-folders are not searched; name one: empty, interrupted, train"),
        ("{0}/none*", "no such file or folder"),
        ("", "no data location"),
        (" , ", "no data location"),
        ("s4://x/y", "no storage is known under s4://"),
        ("{0}/interrupted", "interrupted"),
        ("{0}/interrupted/*", "interrupted"),
    ],
)
def test_a_location_without_data_is_refused(folder, origin, message):
    (folder.parent / "empty").mkdir()
    (folder.parent / "interrupted").mkdir()
    (folder.parent / "interrupted" / ".convert-incomplete").touch()
    (folder.parent / "interrupted" / "data-00000").touch()

    with pytest.raises(InputError, match=message):
        open_reader(origin.format(folder.parent))


def test_a_file_of_another_kind_in_the_folder_is_named(folder):
    (folder / "notes.txt").write_text("these are no records, but some text")
    with pytest.raises(RecordIOError, match=r"notes\.txt"):
        open_reader(str(folder)).sources()


def test_a_range_that_is_not_there_is_an_error(folder):
    reader = open_reader(str(folder))
    name = reader.sources()[0].name
    with pytest.raises(InputError, match="0 to 4"):
        reader.read(name, 0, 4)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"reader_type": "RecordI0"}, "did you mean 'recordio'"),
        ({"reader_tpye": "CSV"}, "did you mean 'reader_type'"),
        ({"sep": ";"}, "known: reader_type"),
    ],
)
def test_wrong_parameters_name_the_nearest(folder, params, message):
    with pytest.raises(InputError, match=message):
        open_reader(str(folder), params)


def write_csv(tmp_path: Path, content: bytes) -> str:
    (tmp_path / "x.csv").write_bytes(content)
    return str(tmp_path / "x.csv")


def test_csv_rows_are_raw_lines_without_the_header(tmp_path):
    path = write_csv(tmp_path, b'\xef\xbb\xbfa,"b\nc"\r\n1,2\r\n\r\n3,"x\ny, ""z"""\n4,5')
    reader = open_reader(path)
    assert reader.metadata.column_names == ["a", "b\nc"]
    assert reader.sources() == [Source(path, 3)]
    assert reader.read(path, 0, 3) == [b"1,2", b'3,"x\ny, ""z"""', b"4,5"]
    assert reader.read(path, 1, 2) == [b'3,"x\ny, ""z"""']


def test_every_range_of_a_long_csv_is_right(tmp_path):
    rows = [b'%d,"%s"' % (i, b"\n" * (i % 3)) for i in range(3000)]
    path = write_csv(tmp_path, b"a,b\n" + b"\n".join(rows) + b"\n")
    reader = open_reader(path)
    assert reader.sources() == [Source(path, 3000)]
    for start, end in ((0, 3000), (1023, 1025), (1024, 1024), (2047, 2999), (2999, 3000)):
        assert reader.read(path, start, end) == rows[start:end]
    with pytest.raises(InputError, match="of 3000"):
        reader.read(path, 2999, 3001)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no header row"),
        (b"\n\n", "no header row"),
        (b'a,b\n1,"x\n2,y\n', "never closed"),
        (b"\xff\xfea\n1\n", "CSV header"),
    ],
)
def test_a_csv_that_cannot_be_read_says_why(tmp_path, content, message):
    path = write_csv(tmp_path, content)
    with pytest.raises(ElasticError, match=message):
        open_reader(path).sources()


def test_csv_files_of_different_columns_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    (tmp_path / "b.csv").write_text("a;c\n1;2\n")
    reader = open_reader(str(tmp_path), {"reader_type": "csv", "sep": ";"})
    with pytest.raises(InputError, match=r"b\.csv: its columns differ"):
        reader.sources()


def test_a_text_that_became_shorter_is_found(tmp_path):
    (tmp_path / "x.txt").write_bytes(b"one\n\nthree")
    reader = open_reader(str(tmp_path / "x.txt"), {"reader_type": "TEXT"})
    (source,) = reader.sources()
    assert reader.read(source.name, 0, 3) == [b"one", b"", b"three"]
    (tmp_path / "x.txt").write_bytes(b"one\n")
    with pytest.raises(ElasticError, match="became shorter"):
        reader.read(source.name, 0, 3)


def test_compressed_text_is_refused(tmp_path):
    (tmp_path / "x.csv.gz").write_bytes(b"")
    with pytest.raises(InputError, match="data convert"):
        open_reader(str(tmp_path / "x.csv.gz"), {"reader_type": "CSV"})


def test_the_old_recordio_reader_reads_tasks(folder):
    old = RecordIODataReader(data_dir=str(folder))
    assert old.create_shards() == [(f"{folder}/data-00000", 0, 3), (f"{folder}/data-00001", 0, 3)]
    task = SimpleNamespace(shard=SimpleNamespace(name=f"{folder}/data-00001", start=1, end=3))
    assert list(old.read_records(task)) == [b"4", b""]


class UsersReader:
    metadata = SimpleNamespace(column_names=("x", "y"), column_dtypes={"x": "float"})

    def __init__(self, shards: object) -> None:
        self.shards = shards

    def create_shards(self) -> object:
        return self.shards

    def read_records(self, task):
        yield from (b"%d" % i for i in range(task.shard.start, min(task.shard.end, 110)))


@pytest.mark.parametrize("shards", [[("t", 100, 10)], {"t": (100, 10)}])
def test_a_users_old_reader_is_adapted(shards):
    reader = adapt(UsersReader(shards))
    assert reader.sources() == [Source("t", records=10, start=100)]
    assert reader.read("t", 100, 102) == [b"100", b"101"]
    assert reader.metadata == Metadata(["x", "y"], {"x": "float"})
    with pytest.raises(ElasticError, match="gave 5 records for 105 to 120"):
        reader.read("t", 105, 120)


def test_what_is_no_reader_is_refused(folder):
    with pytest.raises(InputError, match="has no method read_records"):
        adapt(object())
    with pytest.raises(InputError, match="must give"):
        adapt(UsersReader([("t", 1)])).sources()
    assert adapt(ours := open_reader(str(folder))) is ours

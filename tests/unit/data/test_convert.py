"""Conversion: whole datasets or nothing, every bad row told, nothing of another run."""

from __future__ import annotations

import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from elastic_runtime.data.convert import ConvertRequest, ConvertResult, convert
from elastic_runtime.data.crc32c import crc32c, masked_crc32c
from elastic_runtime.data.example import decode, encode
from elastic_runtime.data.readers import open_reader
from elastic_runtime.errors import ElasticError, InputError


def run(source: object, output: Path, *, processes: int = 1, **options: object) -> ConvertResult:
    places = {"source": str(source), "output": str(output)}
    return convert(ConvertRequest(**places, processes=processes, **options))  # type: ignore[arg-type]


def rows(folder: object) -> list[dict[str, object]]:
    reader = open_reader(str(folder))
    found = [decode(r) for s in reader.sources() for r in reader.read(s.name, 0, s.records)]
    return [{k: v if isinstance(v, list) else v.tolist() for k, v in row.items()} for row in found]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# CSV


def test_csv_types_are_inferred_from_all_of_the_first_rows(tmp_path):
    (tmp_path / "x.csv").write_bytes(
        '\ufeffid,höhe,name,gap,long,"two\nlines"\r\n'
        '1,2,"a, ""b""",1,12345678901234567890,"x\ny"\r\n'
        "\r\n"
        "-2,1e3,ü,,1,z\r\n".encode()
    )
    result = run(tmp_path / "x.csv", tmp_path / "out")
    assert (result.records, result.files, result.rejects, result.rejects_file) == (2, 1, 0, "")
    first, second = rows(tmp_path / "out")
    assert first == {
        "id": [1],
        "höhe": [2.0],
        "name": [b'a, "b"'],
        "gap": [1.0],
        "long": [b"12345678901234567890"],
        "two\nlines": [b"x\ny"],
    }
    assert second["gap"] != second["gap"] or np.isnan(second["gap"][0])  # type: ignore[index]
    assert (second["id"], second["höhe"], second["name"]) == ([-2], [1000.0], ["ü".encode()])


def test_a_schema_chooses_renames_and_types_columns(tmp_path):
    (tmp_path / "x.tsv.gz").write_bytes(gzip.compress(b"a\tb\tc\n1\t2\t3\n"))
    run(tmp_path / "x.tsv.gz", tmp_path / "out", schema="y=c:float, a:bytes, b")
    assert rows(tmp_path / "out") == [{"y": [3.0], "a": [b"1"], "b": [2]}]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", {}, "is empty"),
        (b"\n\n", {}, "is empty"),
        (b"a,b\n", {}, "no rows to convert"),
        (b"a,a\n1,2\n", {}, "column 'a' is named twice"),
        (b"a,\n1,2\n", {}, "a column has no name"),
        (b"a,b\xff\n1,2\n", {}, "header is not UTF-8"),
        (b"a,b\n1,2\n", {"schema": "a,bb:int"}, "no column 'bb' .*did you mean 'b'"),
        (b"a,b\n1,2\n", {"schema": "a:flot"}, "unknown type 'flot' .*did you mean 'float'"),
        (b"a,b\n1,2\n", {"schema": "a:int,a:int"}, "'a' is named twice"),
        (b"a,b\n1,2\n", {"schema": ":int"}, "is not name:type"),
        (b"a,b\n1,2\n3\n", {}, "x.csv, line 3: it has 1 of 2 columns"),
        (b'a,b\n1,"x\ny"\n3,4,5\n', {}, "x.csv, line 4: it has 3 of 2 columns"),
        (b'a,b\n1,"x"y\n', {}, "x.csv, line 2: it is no CSV"),
        (b'a,b\n1,2\n1,"open\n', {}, "x.csv, line 3: it is no CSV: unexpected end"),
        (b"a,b\n1,x\xff\n", {}, "line 2: column 'b': it is not UTF-8"),
        (b"a\nx\n", {"schema": "a:int"}, "line 2: column 'a': 'x' is no int"),
        (b"a\n1_0\n", {"schema": "a:float"}, "'1_0' is no float"),
        (b"a\n1e39\n", {"schema": "a:float"}, "line 2: .*beyond float32"),
        (b"a\n" + b"1\n" * 1500 + b"1.5\n", {}, "line 1502: column 'a': '1.5' is no int"),
        (b"a,b\n1,2\n", {"delimiter": ";;"}, "not one character"),
        (b"a,b\n1,2\n", {"on_error": "ignore"}, "unknown on_error"),
        (b"a,b\n1,2\n", {"kind": "cvs"}, "unknown kind 'cvs' .*did you mean 'csv'"),
        (b"a,b\n1,2\n", {"compressor": "zip"}, "unknown compressor"),
        (b"a,b\n1,2\n", {"records_per_file": 0}, "records_per_file=0"),
        (b"a,b\n1,2\n", {"image_size": "2x2"}, "image_size is for images, not for csv"),
    ],
)
def test_bad_csv_is_refused_with_file_line_and_reason(content, options, message, tmp_path):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        run(tmp_path / "x.csv", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists() or names(tmp_path / "out") == []


def test_bad_rows_may_be_skipped_into_a_file_that_readers_do_not_see(tmp_path):
    (tmp_path / "x.csv").write_bytes(b'a,b\n1,x\n2\n3,"bad"quote\nx,y\n5,\xff\n6,z\n')
    result = run(
        tmp_path / "x.csv", tmp_path / "out", on_error="skip", schema="a:int,b:bytes", records_per_file=2
    )
    assert (result.records, result.rejects) == (2, 4)
    assert [row["a"] for row in rows(tmp_path / "out")] == [[1], [6]]
    rejects = [json.loads(line) for line in Path(result.rejects_file).read_text().splitlines()]
    assert [reject["line"] for reject in rejects] == [3, 4, 5, 6]
    assert rejects[0]["reason"] == "it has 1 of 2 columns"
    assert rejects[2]["row"] == ["x", "y"]
    assert run(tmp_path / "x.csv", tmp_path / "out", schema="b", on_error="skip").rejects == 3


@pytest.mark.parametrize("was_there", [False, True])
def test_a_refused_run_leaves_no_folder_that_was_not_there(tmp_path, was_there):
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    if was_there:
        (tmp_path / "out").mkdir()
    with pytest.raises(ElasticError, match="line 2"):
        run(tmp_path / "bad.csv", tmp_path / "out")
    assert (tmp_path / "out").exists() == was_there


def test_a_run_without_rejects_removes_those_of_the_last(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"a\n1\nx\n")
    run(tmp_path / "x.csv", tmp_path / "out", schema="a:int", on_error="skip")
    run(tmp_path / "x.csv", tmp_path / "out")
    assert names(tmp_path / "out") == ["data-00000"]


# JSON lines


def test_json_lines_become_features(tmp_path):
    lines = [
        '{"i": 1, "f": 1, "s": "ü", "l": [1, 2], "b": true}',
        "",
        '{"i": -2, "f": 2.5, "s": "", "l": [], "b": false}',
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    run(tmp_path / "x.jsonl", tmp_path / "out")
    assert rows(tmp_path / "out") == [
        {"i": [1], "f": [1.0], "s": ["ü".encode()], "l": [1, 2], "b": [1]},
        {"i": [-2], "f": [2.5], "s": [b""], "l": [], "b": [0]},
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("[1]", "no JSON object"),
        ("{}", "there is no key 'a'"),
        ('{"a": null}', "key 'a': None is no number or text"),
        ('{"a": {"b": 1}}', "is no number or text"),
        ('{"a": "x"}', "'x' is no int"),
        ('{"a": 1.5}', "1.5 is no int"),
        ('{"a": 1, "z": 2}', "key 'z' is not in the first rows"),
        ('{"a": 9223372036854775808}', "beyond int64"),
        ('{"s": "\\ud800", "a": 1}', "not UTF-8"),
        ('{"f": 1' + "0" * 400 + ', "a": 1}', "is no float"),
        ('{"a": 1} {"a": 2}', "it is no JSON"),
    ],
)
def test_a_bad_line_of_json_is_named(line, message, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": 1, "s": "", "f": 0.5}\n' * 1000 + line + "\n")
    schema = ",".join(key for key in "asf" if f'"{key}"' in line)
    with pytest.raises(InputError, match=f"x.jsonl, line 1001: .*{message}"):
        run(tmp_path / "x.jsonl", tmp_path / "out", schema="" if '"z"' in line else schema or "a")


# Arrays


def idx(array: np.ndarray) -> bytes:
    code = {"uint8": 8, "int32": 12, "float64": 14}[array.dtype.name]
    big = array.astype(array.dtype.newbyteorder(">"))
    return struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape) + big.tobytes()


def test_arrays_of_npz_and_idx_files_are_the_same_records(tmp_path):
    x, y = np.arange(24, dtype=np.uint8).reshape(3, 2, 4), np.array([3, -1, 2], np.int32)
    np.savez(tmp_path / "a.npz", x=x, y=y, other=np.zeros(7))
    (tmp_path / "idx").mkdir()
    (tmp_path / "idx" / "x-ubyte.gz").write_bytes(gzip.compress(idx(x)))
    (tmp_path / "idx" / "y-ubyte").write_bytes(idx(y))
    run(tmp_path / "a.npz", tmp_path / "npz", schema="image=x:float,label=y,raw=x:bytes")
    run(tmp_path / "idx", tmp_path / "from_idx", schema="image=x-ubyte:float,label=y-ubyte,raw=x-ubyte:bytes")
    expected = [{"image": x[i].ravel().tolist(), "label": [y[i]], "raw": [x[i].tobytes()]} for i in range(3)]
    assert rows(tmp_path / "npz") == rows(tmp_path / "from_idx") == expected


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("", r"differ in length \(x: 3, f: 3, o: 2, n: 0\)"),
        ("q", "no column 'q'"),
        ("f:int", "'f' of float64 is no int"),
        ("n", "no rows"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(schema, message, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), f=np.zeros(3), o=np.zeros(2), n=np.float32(1))
    with pytest.raises(InputError, match=message):
        run(tmp_path / "a.npz", tmp_path / "out", schema=schema)


def test_files_that_are_no_arrays_are_refused(tmp_path):
    whole = idx(np.zeros((3, 2), np.uint8))
    np.savez(tmp_path / "objects.npz", x=np.array([{}, []], object))
    files = {
        "text.npz": b"no zip",
        "empty.npz": b"",
        "a-ubyte": b"",
        "b-ubyte": whole[:-1],
        "c-ubyte": whole[:9],
    }
    files |= {"d-ubyte": whole + b"x", "e-ubyte.gz": gzip.compress(whole)[:-9], "f-ubyte.gz": b"no gzip"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for name in (*files, "objects.npz"):
        with pytest.raises(InputError, match=name):
            run(tmp_path / name, tmp_path / "out")


# Images


def test_images_are_labelled_by_their_folder(tmp_path):
    for name, grey in (("cat/1.png", 10), ("cat/2.png", 20), ("dog/1.png", 30)):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (3, 2), grey).save(tmp_path / "in" / name)
    result = run(tmp_path / "in", tmp_path / "out")
    assert result.records == 3
    assert rows(tmp_path / "out") == [
        {"image": [grey] * 6, "label": [label], "class": [name]}
        for grey, label, name in ((10, 0, b"cat"), (20, 0, b"cat"), (30, 1, b"dog"))
    ]
    run(tmp_path / "in", tmp_path / "out", image_size="4x5", image_mode="RGB")
    assert [len(row["image"]) for row in rows(tmp_path / "out")] == [60] * 3  # type: ignore[arg-type]


def test_images_that_do_not_fit_are_bad_rows(tmp_path):
    (tmp_path / "in" / "cat").mkdir(parents=True)
    Image.new("L", (3, 2)).save(tmp_path / "in" / "cat" / "1.png")
    Image.new("L", (4, 2)).save(tmp_path / "in" / "cat" / "2.png")
    (tmp_path / "in" / "cat" / "3.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"2\.png, .*of size 2x4, the first was 2x3 .*image_size"):
        run(tmp_path / "in", tmp_path / "out")
    assert run(tmp_path / "in", tmp_path / "out", on_error="skip").rejects == 2
    (tmp_path / "in" / "labels.csv").touch()
    with pytest.raises(InputError, match=r"labels\.csv: a file beside the class folders"):
        run(tmp_path / "in", tmp_path / "out", kind="images")


# TFRecord


def tfrecord(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return (
        length
        + struct.pack("<I", masked_crc32c(length))
        + content
        + struct.pack("<I", masked_crc32c(content))
    )


def test_crc32c_is_that_of_the_standard():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"") == 0
    assert crc32c(bytes(range(256)) * 300) == bitwise_crc32c(bytes(range(256)) * 300)


def bitwise_crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.tensorflow
def test_tfrecords_of_tensorflow_are_copied(tmp_path):
    import tensorflow as tf

    records = [encode({"a": i, "b": b"x" * (i * 40_000)}) for i in range(5)] + [b""]
    for name, kind in (("plain.tfrecord", ""), ("packed.tfrecord.gz", "GZIP")):
        with tf.io.TFRecordWriter(str(tmp_path / name), kind) as writer:
            for record in records:
                writer.write(record)
        run(tmp_path / name, tmp_path / "out")
        reader = open_reader(str(tmp_path / "out"))
        assert [r for s in reader.sources() for r in reader.read(s.name, 0, s.records)] == records


def test_every_flip_and_cut_of_a_tfrecord_is_found(tmp_path):
    whole = b"".join(tfrecord(encode({"a": i})) for i in range(3))
    boundaries = {0, len(whole) // 3, len(whole) * 2 // 3}
    for place in range(len(whole)):
        flipped = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
        for damaged in (flipped, *([whole[:place]] if place not in boundaries else [])):
            (tmp_path / "x.tfrecord").write_bytes(damaged)
            with pytest.raises(InputError, match=r"x\.tfrecord, record [0-2]: "):
                run(tmp_path / "x.tfrecord", tmp_path / "out")


# All kinds


def write_numbers(path: Path, count: int) -> Path:
    path.write_text("n\n" + "".join(f"{i}\n" for i in range(count)))
    return path


def test_files_are_numbered_and_in_order_however_many_processes_write(tmp_path):
    source = write_numbers(tmp_path / "x.csv", 1050)
    for processes in (1, 3):
        result = run(source, tmp_path / f"out{processes}", records_per_file=100, processes=processes)
        assert (result.records, result.files) == (1050, 11)
        assert names(tmp_path / f"out{processes}") == [f"data-{i:05d}" for i in range(11)]
        assert [row["n"] for row in rows(tmp_path / f"out{processes}")] == [[i] for i in range(1050)]


def test_the_first_bad_row_is_told_by_whichever_process_finds_it(tmp_path):
    source = write_numbers(tmp_path / "x.csv", 1000)
    source.write_text(source.read_text().replace("\n550\n", "\nbad\n").replace("\n990\n", "\nbad\n"))
    with pytest.raises(InputError, match=r"x\.csv, line 552: column 'n': 'bad' is no int"):
        run(source, tmp_path / "out", schema="n:int", records_per_file=10, processes=2)
    assert not (tmp_path / "out").exists()


def test_a_split_gives_each_row_to_one_part_and_is_repeatable(tmp_path):
    source = write_numbers(tmp_path / "x.csv", 1000)
    parts = {}
    for out in ("one", "two"):
        run(source, tmp_path / out, split="train=0.8,test=0.2", seed=7, records_per_file=300)
        parts[out] = [[row["n"][0] for row in rows(tmp_path / out / part)] for part in ("train", "test")]  # type: ignore[index]
    assert parts["one"] == parts["two"]
    train, test = parts["one"]
    assert sorted(train + test) == list(range(1000))
    assert 140 < len(test) < 260


@pytest.mark.parametrize("split", ["train=0.5", "train", "a=0.5,../b=0.5", "a=-1,b=2", "a=nan,b=1", "=1"])
def test_a_bad_split_is_refused(split, tmp_path):
    with pytest.raises(InputError, match="split"):
        run(write_numbers(tmp_path / "x.csv", 3), tmp_path / "out", split=split)


def test_a_new_run_replaces_the_old_files_and_nothing_else(tmp_path):
    run(write_numbers(tmp_path / "x.csv", 50), tmp_path / "out", records_per_file=10)
    (tmp_path / "out" / ".convert-run-dead").mkdir()
    (tmp_path / "out" / ".convert-run-dead" / "00000000").write_text("half a file")
    (tmp_path / "out" / ".convert-incomplete").touch()
    (tmp_path / "out" / "README").write_text("the user's own")
    run(write_numbers(tmp_path / "x.csv", 15), tmp_path / "out", records_per_file=10)
    assert names(tmp_path / "out") == ["README", "data-00000", "data-00001"]


def test_output_may_lie_in_another_storage(tmp_path):
    source = write_numbers(tmp_path / "x.csv", 25)
    convert(ConvertRequest(source=str(source), output="memory://numbers", records_per_file=10))
    assert [row["n"] for row in rows("memory://numbers")] == [[i] for i in range(25)]


def test_sources_that_would_be_overwritten_are_refused(tmp_path):
    (tmp_path / "data-00000").write_bytes(tfrecord(b"precious"))
    with pytest.raises(InputError, match="output"):
        run(tmp_path / "data-00000", tmp_path, kind="tfrecord")
    assert (tmp_path / "data-00000").read_bytes() == tfrecord(b"precious")


@pytest.mark.parametrize("source", ["nowhere.csv", "empty", "x.unknown"])
def test_a_source_that_is_none_is_refused(source, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.unknown").touch()
    with pytest.raises(InputError, match=source):
        run(tmp_path / source, tmp_path / "out")


def test_an_output_that_cannot_be_written_is_told(tmp_path):
    source = write_numbers(tmp_path / "x.csv", 3)
    (tmp_path / "file").touch()
    with pytest.raises(ElasticError, match="cannot be written"):
        run(source, tmp_path / "file")


def state(folder: Path) -> str | list[int]:
    """The numbers of a folder, or that its conversion was interrupted."""
    try:
        return [row["n"][0] for row in rows(folder)]  # type: ignore[index]
    except InputError as error:
        return "interrupted" if "interrupted" in str(error) else str(error)


DIES_AT_EACH_CHANGE = """
import os, sys
from fsspec.implementations.local import LocalFileSystem as Files
from test_convert import names, run, state, write_numbers

def dying(change, left):
    def change_or_die(*args, **kwargs):
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)
        return change(*args, **kwargs)
    return change_or_die

folder = __import__("pathlib").Path(sys.argv[1])
old, new = write_numbers(folder / "old.csv", 30), write_numbers(folder / "new.csv", 20)
states = []
for deaths in range(1000):
    run(old, folder / "out", records_per_file=10)
    child = os.fork()
    if not child:
        left = [deaths]
        for name in ("makedirs", "mv", "rm_file", "pipe_file", "rm"):
            setattr(Files, name, dying(getattr(Files, name), left))
        run(new, folder / "out", records_per_file=10)
        os._exit(0)
    code = os.waitpid(child, 0)[1]
    states.append(state(folder / "out"))
    if not code:
        break
assert states[0] == list(range(30)) and states[-1] == list(range(20)), states
assert all(s in ("interrupted", list(range(30)), list(range(20))) for s in states), states
assert "interrupted" in states and len(states) > 8, states
assert names(folder / "out") == ["data-00000", "data-00001"]
"""


def test_a_run_that_dies_at_any_change_it_makes_leaves_old_or_new_or_says_so(tmp_path):
    command = [sys.executable, "-c", DIES_AT_EACH_CHANGE, str(tmp_path)]
    subprocess.run(
        command, check=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)}, timeout=280
    )


@pytest.mark.parametrize("moment", [0.0, 0.4, 0.8])
def test_a_killed_run_leaves_no_process_and_no_mixture(moment, tmp_path):
    out = tmp_path / "out"
    run(write_numbers(tmp_path / "old.csv", 40), out, records_per_file=10)
    source = write_numbers(tmp_path / "x.csv", 6_000)
    command = [sys.executable, "-m", "elastic_runtime.cli.data", "convert", str(source), str(out)]
    process = subprocess.Popen([*command, "--records_per_file=20", "--processes=2"], start_new_session=True)
    started = time.monotonic()
    while process.poll() is None and not list(out.glob(".convert-run-*/*")):
        time.sleep(0.005)
    began = time.monotonic() - started
    time.sleep(moment * began)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while _group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _group_lives(process.pid)
    assert state(out) in ("interrupted", list(range(40)), list(range(6_000)))
    run(source, out, records_per_file=1000)
    assert len(names(out)) == 6
    assert state(out) == list(range(6_000))


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_converting_process_that_is_killed_is_told(tmp_path):
    source = write_numbers(tmp_path / "x.csv", 40_000)
    command = [
        sys.executable,
        "-m",
        "elastic_runtime.cli.data",
        "convert",
        str(source),
        str(tmp_path / "out"),
    ]
    process = subprocess.Popen(
        [*command, "--records_per_file=50", "--processes=2"], stderr=subprocess.PIPE, text=True
    )
    while not list((tmp_path / "out").glob(".convert-run-*/*")):
        assert process.poll() is None
        time.sleep(0.005)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [c for c in children if "spawn_main" in Path(f"/proc/{c}/cmdline").read_text()]
    os.kill(int(workers[0]), signal.SIGKILL)
    _, told = process.communicate(timeout=240)
    assert "a converting process died with exit code -9" in told
    assert process.returncode == 1
    assert not (tmp_path / "out").exists()

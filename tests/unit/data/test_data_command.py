"""`elasticdl data` as typed: what it prints, what it writes, how it exits."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from elastic_runtime.cli.data import data
from elastic_runtime.data.example import decode
from elastic_runtime.data.recordio import read_range
from elastic_runtime.errors import ElasticError, InputError


def type_in(*words: object) -> str:
    """What the command prints; its errors are raised, as the root command expects."""
    result = CliRunner().invoke(data, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def typed(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "elastic_runtime.cli.data", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_mnist_sample_is_written_as_the_tutorials_read_it(tmp_path):
    type_in("mnist", tmp_path, "--sample")
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()) == [
        "test/data-00000",
        "train/data-00000",
        "train/data-00001",
    ]
    records = [read_range(str(tmp_path / "train" / f"data-0000{i}"), 0, n) for i, n in ((0, 4096), (1, 1904))]
    first = decode(records[0][0])
    assert first.keys() == {"image", "label"}
    assert first["image"].dtype == np.float32  # type: ignore[union-attr]
    assert (len(first["image"]), max(first["image"]), min(first["image"])) == (784, 255, 0)
    labels = [decode(record)["label"] for part in records for record in part]
    assert np.bincount(np.concatenate(labels)).tolist() == [600] * 10


def test_mnist_comes_from_idx_files_too(tmp_path):
    for name, count in (("train", 3), ("t10k", 2)):
        images = b"\0\0\x08\3" + b"".join(n.to_bytes(4, "big") for n in (count, 28, 28)) + bytes(count * 784)
        (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(images)
        (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(
            b"\0\0\x08\1" + count.to_bytes(4, "big") + bytes(count)
        )
    type_in("mnist", tmp_path / "out", "--source", tmp_path)
    assert json.loads(type_in("inspect", tmp_path / "out" / "train", "--json"))["records"] == 3
    assert json.loads(type_in("inspect", tmp_path / "out" / "test", "--json"))["records"] == 2


def test_mnist_comes_from_one_place(tmp_path):
    with pytest.raises(InputError, match="exclude each other"):
        type_in("mnist", tmp_path, "--sample", "--source", "x")


def test_a_csv_is_converted_and_looked_into(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,x\n2,y\nthree,z\n")
    said = type_in("convert", tmp_path / "x.csv", tmp_path / "out", "--schema=a:int,b", "--on_error=skip")
    assert f"{tmp_path}/out: 2 records in 1 files" in said
    assert f"1 bad rows were skipped, see {tmp_path}/out/_rejects.jsonl" in said
    said = type_in("inspect", tmp_path / "out")
    assert "data-00000: 2 records in 1 chunks (snappy)" in said
    assert "tf.train.Example: a (int x 1), b (bytes x 1)" in said
    assert type_in("head", tmp_path / "out", "-n", 1) == "0: a=1, b='x'\n"
    assert json.loads(type_in("head", tmp_path / "out", "--json")) == [
        {"a": [1], "b": ["x"]},
        {"a": [2], "b": ["y"]},
    ]
    assert json.loads(type_in("verify", tmp_path / "out", "--json"))[0]["error"] == ""


def test_records_of_another_kind_are_shown_as_bytes(write_records):
    path = write_records([b"\xff\xfe", b"text"])
    assert type_in("head", path) == "0: b'\\xff\\xfe'\n1: b'text'\n"
    assert json.loads(type_in("head", path, "--json")) == ["fffe", "74657874"]
    assert "no tf.train.Example; the first has 2 bytes" in type_in("inspect", path)


def test_a_file_of_no_records_is_shown(write_records):
    path = write_records([])
    assert type_in("head", path) == ""
    assert f"{path}: 0 records in 0 chunks (empty), 0 bytes" in type_in("inspect", path)


def test_verify_names_every_damaged_file_and_fails(tmp_path, write_records):
    whole, cut, flipped = (Path(write_records([b"some", b"records"], f"in/data-0000{i}")) for i in range(3))
    cut.write_bytes(cut.read_bytes()[:-1])
    flipped.write_bytes(flipped.read_bytes()[:-1] + b"?")
    result = typed("verify", tmp_path / "in")
    assert f"{whole}: whole, 2 records read" in result.stdout
    assert f"{cut}: damaged" in result.stdout
    assert f"{flipped}: damaged" in result.stdout
    assert "error: " in result.stderr
    assert "(and 1 more files)" in result.stderr
    assert result.returncode == 1
    with pytest.raises(ElasticError):
        type_in("verify", tmp_path / "in", "--json")


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "nowhere"),
        ("head", "nowhere"),
        ("verify", "nowhere"),
        ("convert", "nowhere.csv", "out"),
        ("mnist", "out", "--source=nowhere.npz"),
    ],
)
def test_what_is_not_there_is_bad_input(words):
    with pytest.raises(InputError, match="nowhere"):
        type_in(*words)


def test_the_command_starts_without_what_its_work_needs():
    heavy = "{'numpy', 'fsspec', 'cramjam', 'rich', 'tensorflow'}"
    code = f"import sys, elastic_runtime.cli.data; print(sorted({heavy} & sys.modules.keys()))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_converting_needs_no_tensorflow(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ImportError('TensorFlow was imported')")
    command = [sys.executable, "-m", "elastic_runtime.cli.data", "mnist", str(tmp_path / "out"), "--sample"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})


def test_a_terminal_sees_a_bar_and_a_pipe_sees_lines(tmp_path):
    (tmp_path / "x.csv").write_text("a\n" + "1\n" * 20_000)
    command = [sys.executable, "-m", "elastic_runtime.cli.data", "convert", str(tmp_path / "x.csv")]
    piped = subprocess.run([*command, str(tmp_path / "one")], capture_output=True, check=True)
    assert b"\x1b" not in piped.stdout + piped.stderr
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*command, str(tmp_path / "two")], stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    seen = b""
    while b"20000" not in seen:
        seen += os.read(ours, 65536)
    assert b"converting" in seen
    assert process.wait() == 0
    os.close(ours)

"""A job whose data and model are in an S3 store, which its processes reach by themselves."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import s3fs
from harness import Run

from tests.cluster.kit import s3

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]


def test_shards_are_read_from_a_store_and_the_model_goes_there(
    bucket: s3fs.S3FileSystem, data: Path, make_run: Callable[..., Run], tmp_path: Path
) -> None:
    bucket.put(f"{data}/", "bucket/train/", recursive=True)
    bucket.pipe("bucket/model/left.txt", b"of an earlier job")
    run = make_run(
        "--output=s3://bucket/model", "--num_workers=1", "--num_epochs=2", data="s3://bucket/train"
    )
    run.start()
    run.assert_right_end()
    found = {path.removeprefix("bucket/model/") for path in bucket.find("bucket/model")}
    assert {"model.keras", "saved_model/saved_model.pb"} <= found
    assert "left.txt" not in found, "the place is the model's alone"


def test_what_a_store_refuses_is_one_clear_error(
    bucket: s3fs.S3FileSystem, make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = make_run(data="s3://bucket/nothing").again()
    assert nothing.returncode == 2, nothing.stderr
    assert "s3://bucket/nothing: there is no such file or folder" in nothing.stderr.splitlines()[-1]
    for name in s3.CREDENTIALS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    unknown = make_run(data="s3://bucket/train").again()
    assert unknown.returncode == 2, unknown.stderr
    assert "s3://bucket/train: cannot be listed: Unable to locate credentials" in unknown.stderr


def test_a_conversion_writes_into_a_store(bucket: s3fs.S3FileSystem, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "elastic_runtime", "data"]
    made = subprocess.run(
        [*command, "mnist", "s3://bucket/mnist", "--sample"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert bucket.find("bucket/mnist/train")
    seen = subprocess.run(
        [*command, "verify", "s3://bucket/mnist/train"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert seen.returncode == 0, seen.stderr
    assert sum(map(int, re.findall(r"(\d+) records", seen.stdout.replace(",", "")))) == 6000

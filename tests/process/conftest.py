"""A store for jobs and steps, on this machine: moto's server, which speaks S3 and keeps all in memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import s3fs

from tests.cluster.kit import s3

STARTS_WITHIN_SECONDS = 240.0


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a store on this machine."""
    log = tmp_path_factory.mktemp("store") / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
            env={**os.environ, "PYTHONPATH": str(s3.installed())},
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        while not (found := re.search(r"Running on (http://127.0.0.1:\d+)\s", log.read_text())):
            assert time.monotonic() < deadline, f"the store has not said where it is: {log.read_text()}"
            time.sleep(0.05)
        yield found[1]
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def bucket(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[s3fs.S3FileSystem]:
    """The store with a bucket `bucket`, which everything that this test starts is told how to reach."""
    told = {"AWS_ENDPOINT_URL": address, "AWS_DEFAULT_REGION": "us-east-1", **s3.CREDENTIALS}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    store = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    store.mkdir("bucket")
    yield store
    store.rm("bucket", recursive=True)

"""`minio://` is the store that its own variables name, whatever `s3://` is; without them it is the same."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from elastic_runtime.data import storage

LOOK = "import sys; from elastic_runtime.data import storage; print(storage.list_files(sys.argv[1]))"
LISTED = """\
<ListBucketResult><Name>bucket</Name><Prefix>data/</Prefix><KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys>
<IsTruncated>false</IsTruncated><Contents><Key>data/part-0</Key><Size>1</Size>
<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>e</ETag></Contents></ListBucketResult>
"""


class Store:
    """Lists one file to whoever asks, and keeps the keys that it was shown."""

    def __init__(self) -> None:
        self.keys = keys = set[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                keys.add(self.headers["Authorization"].partition("Credential=")[2].partition("/")[0])
                self.send_response(200)
                self.send_header("Content-Type", "application/xml")
                self.send_header("Content-Length", str(len(LISTED)))
                self.end_headers()
                self.wfile.write(LISTED.encode())

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def stores() -> Iterator[tuple[Store, Store]]:
    """That of `s3://`, and another."""
    both = Store(), Store()
    yield both
    for store in both:
        store.close()


def listed(place: str, variables: Mapping[str, str]) -> str:
    """By a process like a worker's, which has these variables from its beginning."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FSSPEC_"))}
    words = [sys.executable, "-c", LOOK, place]
    ended = subprocess.run(words, env=kept | variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_each_has_its_own_place_and_its_own_keys(stores: tuple[Store, Store]) -> None:
    of_s3, of_kfp = stores
    told = {
        "AWS_ENDPOINT_URL": of_s3.address,
        "AWS_ACCESS_KEY_ID": "mine",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "FSSPEC_MINIO_ENDPOINT_URL": of_kfp.address,
        "FSSPEC_MINIO_KEY": "12345",  # which fsspec takes for a number
        "FSSPEC_MINIO_SECRET": "67890",
    }
    assert listed("minio://bucket/data", told) == "['minio://bucket/data/part-0']"
    assert (of_s3.keys, of_kfp.keys) == (set(), {"12345"})
    assert listed("s3://bucket/data", told) == "['s3://bucket/data/part-0']"
    assert (of_s3.keys, of_kfp.keys) == ({"mine"}, {"12345"})


def test_without_a_place_of_its_own_it_is_what_s3_is(stores: tuple[Store, Store]) -> None:
    store, _ = stores
    told = {
        "AWS_ENDPOINT_URL": store.address,
        "AWS_ACCESS_KEY_ID": "mine",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    assert listed("minio://bucket/data", told) == "['minio://bucket/data/part-0']"
    assert store.keys == {"mine"}


def test_it_has_one_spelling() -> None:
    assert storage.absolute("minio://bucket/data/") == "minio://bucket/data"

"""Records in Google's storage are read through gs://, from a server here that speaks its protocol."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

RECORDS = [f"record {n}".encode() for n in range(100)]


class Store(NamedTuple):
    """The address of a server, and what is in its bucket `bucket`, by name."""

    address: str
    objects: dict[str, bytes]


@pytest.fixture
def store() -> Iterator[Store]:
    objects: dict[str, bytes] = {}

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            _, _, name = url.path.partition("/b/bucket/o")
            name = unquote(name.strip("/"))
            if not name:
                self._say(200, listed(objects, query.get("prefix", ""), query.get("delimiter", "")))
            elif name not in objects:
                self._say(404, {"error": {"code": 404, "message": "no such object"}})
            elif query.get("alt") == "media" or "/download/" in url.path:
                self._say_bytes(name)
            else:
                self._say(200, described(name, objects[name]))

        def _say(self, status: int, what: Any) -> None:
            self._send(status, json.dumps(what).encode(), "application/json")

        def _say_bytes(self, name: str) -> None:
            whole = objects[name]
            if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
                self._send(206, whole[int(asked[1]) : int(asked[2] or len(whole)) + 1], "text/plain")
            else:
                self._send(200, whole, "text/plain")

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Store(f"http://127.0.0.1:{server.server_port}", objects)
    server.shutdown()
    thread.join()
    server.server_close()


def described(name: str, content: bytes) -> dict[str, Any]:
    return {"kind": "storage#object", "bucket": "bucket", "name": name, "size": str(len(content))}


def listed(objects: dict[str, bytes], prefix: str, delimiter: str) -> dict[str, Any]:
    found = {name: content for name, content in objects.items() if name.startswith(prefix)}
    below = {name for name in found if delimiter and delimiter in name.removeprefix(prefix)}
    folders = {prefix + name.removeprefix(prefix).split(delimiter)[0] + delimiter for name in below}
    items = [described(name, content) for name, content in found.items() if name not in below]
    return {"kind": "storage#objects", "items": items, "prefixes": sorted(folders)}


def verified(place: str, address: str) -> subprocess.CompletedProcess[str]:
    told = {
        "STORAGE_EMULATOR_HOST": address,
        "FSSPEC_GS_TOKEN": "anon",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # it would ask Google what kind of bucket it is
    }
    command = [sys.executable, "-m", "elastic_runtime", "data", "verify", place]
    return subprocess.run(
        command, env=os.environ | told, capture_output=True, text=True, timeout=100, check=False
    )


def test_records_are_read_from_googles_storage(store: Store, write_records: Callable[..., str]) -> None:
    for n in range(2):
        store.objects[f"train/data-0000{n}"] = Path(write_records(RECORDS)).read_bytes()
    ended = verified("gs://bucket/train", store.address)
    assert ended.returncode == 0, ended.stderr
    assert re.findall(r"(\d+) records", ended.stdout) == ["100", "100"]
    nothing = verified("gs://bucket/tarin", store.address)
    assert nothing.returncode == 2, nothing.stderr
    assert "gs://bucket/tarin: there is no such file or folder" in nothing.stderr.splitlines()[-1]

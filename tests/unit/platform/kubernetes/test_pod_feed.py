"""What a feed of pods tells when a watch ends, is forgotten (410) or breaks: nothing is missed.

The API server is a real one as far as it goes: it speaks HTTP, and answers by a script.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes import client

from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.connection import Connection
from elastic_runtime.platform.kubernetes.feed import PodFeed

FORGOTTEN = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
BROKEN, CUT, GARBLED = object(), object(), object()


def pod(name: str, version: int, uid: str = "") -> dict:
    spec = {"containers": [{"name": "main", "image": "i"}]}
    return {"metadata": {"name": name, "uid": uid or name, "resourceVersion": str(version)}, "spec": spec}


def listing(version: int, *pods: dict) -> dict:
    return {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": [*pods]}


def event(kind: str, found: dict) -> dict:
    return {"type": kind, "object": found}


def bookmark(version: int) -> dict:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


class Server(ThreadingHTTPServer):
    """Gives the next of its lists, or of its watches, to whoever asks; a watch beyond the last stays open."""

    daemon_threads = True

    def __init__(self, lists: list[dict], watches: list[object]) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.lists, self.watches = iter(lists), iter(watches)
        self.asked: list[str] = []
        self.over = threading.Event()


class _Answers(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "watch" not in query:
            self.server.asked.append("list")
            self._send(200, next(self.server.lists))
            return
        self.server.asked.append(f"watch from {query['resourceVersion'][0]}")
        told = next(self.server.watches, None)
        if isinstance(told, dict):
            self._send(told["code"], told)
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if told in (BROKEN, CUT):
            self._chunk(json.dumps(event("DELETED", pod("a", 99))).encode()[:-9])
            if told is BROKEN:
                self.close_connection = True
                return
            told = ()
        if told is GARBLED:
            self._chunk(b"<html>upstream is away</html>\n")
            told = ()
        for each in told or ():
            self._chunk(json.dumps(each).encode() + b"\n")
        if told is None:
            self.server.over.wait(60)
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        with suppress(OSError):  # whoever asked may be gone
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _send(self, code: int, body: dict) -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        """Nothing is shown."""


@contextmanager
def server(lists: list[dict], watches: list[object]) -> Iterator[Server]:
    with Server(lists, watches) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            made.over.set()
            made.shutdown()
            thread.join()


def heard(lists: list[dict], watches: list[object], until: str) -> tuple[list[str], list[str]]:
    """What a feed says, up to and with `until`, and what it has asked."""

    async def follow(server: Server) -> list[str]:
        told: list[str] = []
        enough = asyncio.Event()

        def hear(deleted: bool, seen: client.V1Pod) -> None:
            told.append(f"{'-' if deleted else '+'}{seen.metadata.uid}@{seen.metadata.resource_version}")
            if told[-1] == until:
                enough.set()

        found = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
        api = Api(Connection(found, patience=10), "n")
        feed = PodFeed(api, "job=j", hear)
        try:
            async with asyncio.timeout(60):
                await enough.wait()
        except TimeoutError:
            pytest.fail(f"{until} is not told: {told}, after {server.asked}")
        finally:
            await feed.close()
            api.close()
        return told

    with server(lists, watches) as made:
        told = asyncio.run(follow(made))
        return told, made.asked


def test_a_watch_that_ends_is_taken_up_where_it_was() -> None:
    first = [event("MODIFIED", pod("a", 7)), bookmark(30)]
    told, asked = heard([listing(5, pod("a", 3))], [first, [event("DELETED", pod("a", 31))]], "-a@31")
    assert told == ["+a@3", "+a@7", "-a@31"]
    assert asked[:3] == ["list", "watch from 5", "watch from 30"]


@pytest.mark.parametrize("forgotten", [FORGOTTEN, [event("ERROR", FORGOTTEN)]], ids=["answer", "event"])
def test_a_place_that_is_forgotten_is_looked_up_anew_and_what_vanished_is_told(forgotten: object) -> None:
    """One pod stays, one has gone, one was replaced under its name, one is new."""
    before = listing(5, pod("stays", 1), pod("goes", 2), pod("back", 3, "old"))
    after = listing(90, pod("stays", 1), pod("back", 80, "young"), pod("new", 85))
    told, asked = heard([before, after], [forgotten], "+new@85")
    assert told == [
        *("+stays@1", "+goes@2", "+old@3"),
        *("-goes@2", "-old@3"),
        *("+stays@1", "+young@80", "+new@85"),
    ]
    assert asked[:3] == ["list", "watch from 5", "list"]
    assert set(asked[3:]) <= {"watch from 90"}


@pytest.mark.parametrize("ending", [BROKEN, CUT, GARBLED], ids=["broken", "ended in order", "not an event"])
def test_an_event_that_is_not_whole_is_none_and_comes_again(ending: object) -> None:
    told, asked = heard([listing(5, pod("a", 3))], [ending, [event("DELETED", pod("a", 9))]], "-a@9")
    assert told == ["+a@3", "-a@9"]
    assert asked[:3] == ["list", "watch from 5", "watch from 5"]

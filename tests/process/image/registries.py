"""Registries for tests: Debian's real one on loopback, and a front before it that fails as networks do.

A front passes everything on and keeps what it was asked; `front.once(...)` tells it what to do before that.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

USER, PASSWORD = "me", "secret"
HTPASSWD = f"{USER}:$2b$04$kgR9lTP06oOwhtHgHxKQ2eZvXvoVNIVescD4Owxf6jktI182AfuWS\n"
BASIC = f"Basic {b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
TOKEN, REFRESH = "a-token", "one-that-lasts"


@contextmanager
def registry(folder: Path, **settings: object) -> Iterator[str]:
    """A registry that keeps its images in a folder; its address."""
    folder.mkdir(exist_ok=True)
    storage = {"filesystem": {"rootdirectory": str(folder / "images")}, "delete": {"enabled": True}}
    told = {"version": "0.1", "storage": storage, "http": {"addr": "127.0.0.1:0"}, **settings}
    (folder / "registry.json").write_text(json.dumps(told))
    with subprocess.Popen(
        ["docker-registry", "serve", folder / "registry.json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "listening on " in line)
        reading = threading.Thread(target=process.stderr.read)
        reading.start()
        try:
            yield re.search(r"listening on ([\d.:]+)", line)[1]  # type: ignore[index]
        finally:
            process.kill()
            reading.join()


def htpasswd(folder: Path) -> dict[str, object]:
    """A setting: only `me` gets in."""
    folder.mkdir(exist_ok=True)
    (folder / "users").write_text(HTPASSWD)
    return {"htpasswd": {"realm": "users", "path": str(folder / "users")}}


@dataclass
class Fault:
    """What happens to the first request of this kind: `status`, or a line that breaks `at` some point."""

    method: str
    part: str
    status: int = 0
    at: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1


class Front:
    """The server before the registry."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.faults: list[Fault] = []
        self.answers: dict[str, tuple[str, bytes]] = {}
        self.asked: list[tuple[str, str]] = []
        self.shown: list[str | None] = []  # who we said we were, each time
        self.scopes: list[list[str]] = []
        self.wants_token = False
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Passing,), {"front": self}))
        self.address = f"127.0.0.1:{self.server.server_port}"

    def once(self, method: str, part: str, **how: object) -> None:
        self.faults.append(Fault(method, part, **how))

    def fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.method == method and fault.part in path and fault.times:
                    fault.times -= 1
                    return fault
        return None

    def sent(self) -> list[str]:
        """The blobs that were really sent through it."""
        return [
            parse_qs(urlsplit(path).query)["digest"][0]
            for method, path in self.asked
            if method == "PUT" and "uploads" in path
        ]


@contextmanager
def front(behind: str) -> Iterator[Front]:
    made = Front(behind)
    serving = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        serving.join()


class _Passing(BaseHTTPRequestHandler):
    front: Front

    def handle_any(self) -> None:
        front, length = self.front, int(self.headers["Content-Length"] or 0)
        front.asked.append((self.command, self.path))
        front.shown.append(self.headers["Authorization"])
        self.close_connection = True
        fault = front.fault(self.command, self.path)
        if fault and fault.at == "once":
            return
        if fault and fault.at == "in the body":
            self.rfile.read(length // 2)
            return
        if fault and fault.at == "before the body":
            self.answer(fault.status, fault.headers, b"")
            return
        body = self.rfile.read(length)
        if fault and fault.status:
            self.answer(fault.status, fault.headers, b"")
        elif self.path.startswith("/token"):
            self.give_token(parse_qs(body.decode() or urlsplit(self.path).query))
        elif front.wants_token and self.headers["Authorization"] != f"Bearer {TOKEN}":
            challenge = (
                f'Bearer realm="http://{front.address}/token?account=x",service="tests",scope="ignored"'
            )
            self.answer(401, {"WWW-Authenticate": challenge}, b"")
        elif self.path in front.answers:
            kind, content = front.answers[self.path]
            self.answer(200, {"Content-Type": kind}, content)
        else:
            self.pass_on(body, cut=bool(fault and fault.at == "in the answer"))

    do_GET = do_HEAD = do_POST = do_PUT = handle_any

    def give_token(self, form: dict[str, list[str]]) -> None:
        self.front.scopes.append(form["scope"])
        if self.headers["Authorization"] == BASIC or form.get("refresh_token") == [REFRESH]:
            self.answer(200, {}, json.dumps({"token": TOKEN}).encode())
        else:
            self.answer(401, {}, b'{"errors": [{"code": "UNAUTHORIZED", "message": "who are you?"}]}')

    def pass_on(self, body: bytes, *, cut: bool) -> None:
        connection = http.client.HTTPConnection(self.front.behind)
        headers = {name: value for name, value in self.headers.items() if name != "Connection"}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        told = {name: value for name, value in answer.getheaders() if name not in {"Date", "Connection"}}
        told.setdefault("Content-Length", str(len(content)))
        self.answer(answer.status, told, content[: len(content) // 2] if cut else content)
        connection.close()

    def answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        """Nothing is shown."""

"""Where a test of the command runs: a folder of its own, no cluster and no KFP configured but by itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

Answer = Callable[[Any], Any]
"""From the body of a request, if it has one, to that of the answer; a number is the status of a refusal."""


class Server:
    """Answers requests with JSON or text, as long as the test runs; 404 to what it does not know."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.asked: list[str] = []
        """Method and place of each request."""
        self.answers = dict(answers)
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                request = f"{self.command} {self.path.partition('?')[0]}"
                owner.asked.append(request)
                known = owner.answers.get(request)
                answer = known(body) if known else 404
                status = answer if isinstance(answer, int) else 200
                answer = {"message": "no such thing"} if isinstance(answer, int) else answer
                text = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def kubeconfig(self, file: Path, namespace: str = "", user: Mapping[str, str] | None = None) -> Path:
        """One that names this server as the cluster."""
        context = {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}
        found = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": self.address}}],
            "users": [{"name": "u", "user": {"token": "t"} if user is None else dict(user)}],
            "contexts": [{"name": "x", "context": context}],
        }
        file.write_text(yaml.safe_dump(found))
        return file


@pytest.fixture(autouse=True)
def nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "UI_ENDPOINT", "NAMESPACE"):
        monkeypatch.delenv(f"KF_PIPELINES_{name}", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def serve() -> Iterator[Callable[[Mapping[str, Answer]], Server]]:
    made: list[Server] = []

    def start(answers: Mapping[str, Answer]) -> Server:
        made.append(Server(answers))
        return made[-1]

    yield start
    for server in made:
        server.close()

"""What is asked again by itself, and what is told at once, on a server that answers by a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from kubernetes import client

from elastic_runtime.platform.kubernetes.api import Api, Changed, NoQuota
from elastic_runtime.platform.kubernetes.connection import Connection

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
FULL = {
    "code": 403,
    "reason": "Forbidden",
    "message": 'pods "a" is forbidden: exceeded quota: few, requested: pods=1, used: pods=4, limited: pods=4',
}


def conflict(kind: str) -> dict:
    """What is answered when others have changed an object of this kind meanwhile."""
    changed = "the object has been modified; please apply your changes to the latest version and try again"
    return {
        "code": 409,
        "reason": "Conflict",
        "message": f'Operation cannot be fulfilled on {kind} "few": {changed}',
        "details": {"name": "few", "kind": kind},
    }


class _Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.answers.pop(0)
        content = json.dumps(answer).encode()
        self.send_response(answer.get("code", 201))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        """Nothing is shown."""


@contextmanager
def answering(*answers: dict) -> Iterator[tuple[Api, list[dict]]]:
    """A namespace on a server that gives these answers, and those that it has not given yet."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        server.answers = [*answers]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        found = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
        api = Api(Connection(found, patience=10), "n")
        try:
            yield api, server.answers
        finally:
            api.close()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("kind", ["resourcequotas", "clusterresourcequotas"])
def test_who_lost_a_race_for_a_quota_is_made_all_the_same(kind: str) -> None:
    with answering(conflict(kind), conflict(kind), POD) as (api, left):
        assert api.create_pod(client.V1Pod()).metadata.name == "a"
        assert left == []


def test_a_quota_that_is_full_after_a_race_for_it_is_told_at_once() -> None:
    with answering(conflict("resourcequotas"), FULL, POD) as (api, left):
        with pytest.raises(NoQuota):
            api.create_pod(client.V1Pod())
        assert left == [POD]


def test_another_object_that_was_changed_meanwhile_is_told_at_once() -> None:
    with answering(conflict("configmaps"), POD) as (api, left):
        with pytest.raises(Changed):
            api.create_pod(client.V1Pod())
        assert left == [POD]

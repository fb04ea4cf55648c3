"""An API server of one namespace, in memory, for whoever has no rights but those they are given.

Pods run as soon as they are made. Those that are watched end, or go if they are being deleted. What a command
in a pod would print is nothing; it succeeds.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Right = tuple[str, str]
"""Resource and verb."""
_WEB_SOCKETS = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455
_ERROR_CHANNEL, _BINARY, _CLOSE = 3, 0x82, 0x88


class Server(ThreadingHTTPServer):
    """See above."""

    def __init__(self, rights: set[Right]) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.rights = rights
        self.used: set[Right] = set()
        self.refused: list[Right] = []
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.exit_code, self.is_full = 0, False
        self.uids = itertools.count(1)
        self.lock = threading.Lock()

    def pods(self) -> list[str]:
        """Their names."""
        return [name for resource, name in self.objects if resource == "pods"]

    def make(self, resource: str, made: dict[str, Any]) -> dict[str, Any]:
        """The object, as it then is."""
        now = datetime.now(UTC).isoformat()
        made["metadata"] |= {"uid": f"{next(self.uids)}", "creationTimestamp": now, "resourceVersion": "1"}
        if resource == "pods":
            made["spec"]["nodeName"] = "node-0"
            made["status"] = {"phase": "Running", "startTime": now}
            made["status"]["containerStatuses"] = [_container({"running": {"startedAt": now}})]
        self.objects[resource, made["metadata"]["name"]] = made
        return made

    def happens(self, selector: str) -> Iterator[dict[str, Any]]:
        """The event of each of these pods."""
        for name in self.pods():
            pod = self.objects["pods", name]
            if not _is_selected(pod, selector):
                continue
            if "deletionTimestamp" in pod["metadata"]:
                del self.objects["pods", name]
                yield {"type": "DELETED", "object": pod}
            else:
                ended = {"terminated": {"exitCode": self.exit_code}}
                phase = "Failed" if self.exit_code else "Succeeded"
                pod["status"] |= {"phase": phase, "containerStatuses": [_container(ended)]}
                yield {"type": "MODIFIED", "object": pod}


class _Request(BaseHTTPRequestHandler):
    server: Server

    def _asked(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        resource, name, part, *_ = [*url.path.split("/")[5:], "", ""]
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        verb = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}.get(self.command, "get")
        if verb == "get" and not name:
            verb = "watch" if "watch" in query else "list"
        right = (f"{resource}/{part}" if part else resource, verb)
        with self.server.lock:
            if right not in self.server.rights:
                self.server.refused.append(right)
                says = f'User "jane" cannot {verb} resource "{right[0]}" in API group "" in the namespace "n"'
                self._status(403, "Forbidden", f"{right[0]} is forbidden: {says}")
                return
            self.server.used.add(right)
            getattr(self, f"_{part or verb}")(resource, name, query, body)

    do_GET = do_POST = do_PATCH = do_DELETE = _asked

    def _create(self, resource: str, _: str, __: dict[str, str], body: dict[str, Any]) -> None:
        if (resource, body["metadata"]["name"]) in self.server.objects:
            self._status(409, "AlreadyExists", "it is there")
        elif resource == "pods" and self.server.is_full:
            self._status(403, "Forbidden", "pods is forbidden: exceeded quota: few")
        else:
            self._says(self.server.make(resource, body))

    def _get(self, resource: str, name: str, *_: dict[str, Any]) -> None:
        if found := self.server.objects.get((resource, name)):
            self._says(found)
        else:
            self._status(404, "NotFound", f"{resource} {name!r} not found")

    def _list(self, resource: str, _: str, query: dict[str, str], __: dict[str, Any]) -> None:
        every = [found for (kind, _), found in self.server.objects.items() if kind == resource]
        items = [found for found in every if _is_selected(found, query.get("labelSelector", ""))]
        self._says({"metadata": {"resourceVersion": "1"}, "items": items})

    def _watch(self, _: str, __: str, query: dict[str, str], ___: dict[str, Any]) -> None:
        events = self.server.happens(query.get("labelSelector", ""))
        self._writes("".join(json.dumps(event) + "\n" for event in events))

    def _patch(self, resource: str, name: str, *_: dict[str, Any]) -> None:
        """Of owners nothing is known here."""
        self._get(resource, name)

    def _delete(self, resource: str, name: str, _: dict[str, str], body: dict[str, Any]) -> None:
        found = self.server.objects.get((resource, name))
        if found and resource == "pods" and body.get("gracePeriodSeconds") != 0:
            found["metadata"]["deletionTimestamp"] = datetime.now(UTC).isoformat()
        elif found:
            del self.server.objects[resource, name]
        self._says(found or {})

    def _log(self, *_: object) -> None:
        self._writes("a line\n")

    def _exec(self, *_: object) -> None:
        key = self.headers["Sec-WebSocket-Key"] + _WEB_SOCKETS
        self.protocol_version = "HTTP/1.1"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accepted = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_header("Sec-WebSocket-Accept", accepted)
        self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
        self.end_headers()
        end = bytes([_ERROR_CHANNEL]) + json.dumps({"status": "Success"}).encode()
        self.wfile.write(bytes([_BINARY, len(end)]) + end + bytes([_CLOSE, 2, 3, 232]))
        self.close_connection = True

    def _status(self, code: int, reason: str, message: str) -> None:
        self._says({"kind": "Status", "code": code, "reason": reason, "message": message}, code)

    def _says(self, answer: dict[str, Any], code: int = 200) -> None:
        self._writes(json.dumps(answer), code)

    def _writes(self, text: str, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *words: object) -> None:
        """Nothing is shown."""


def _container(state: dict[str, Any]) -> dict[str, Any]:
    about = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    return {**about, "state": state}


def _is_selected(found: dict[str, Any], selector: str) -> bool:
    labels = found["metadata"].get("labels", {})
    for term in re.findall(r"[^,(]+(?:\([^)]*\))?", selector):
        name, _, values = re.sub(r" in \((.*)\)", r"=\1", term).partition("=")
        if name not in labels or (values and labels[name] not in values.split(", ")):
            return False
    return True


@contextmanager
def small_server(kubeconfig: Path, *rights: Right) -> Iterator[Server]:
    """The server, and how to find it."""
    with Server(set(rights)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        cluster = {"server": f"http://127.0.0.1:{server.server_port}"}
        written = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "jane", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "jane"}}],
            "current-context": "x",
        }
        kubeconfig.write_text(json.dumps(written))
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()

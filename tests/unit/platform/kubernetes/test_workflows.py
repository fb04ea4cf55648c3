"""What the steps of a workflow said last, as an API server gives it: bytes, of which not all need be text."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kubernetes import client

from elastic_runtime.platform.kubernetes.connection import Connection
from elastic_runtime.platform.kubernetes.workflows import Workflows

POD = {
    "metadata": {"name": "w-1", "annotations": {"workflows.argoproj.io/node-id": "w-train"}},
    "spec": {"containers": [{"name": "main", "image": "i"}]},
}
LOG = "/api/v1/namespaces/n/pods/w-1/log?container=main&tailLines=3"


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        pods = json.dumps({"kind": "PodList", "metadata": {}, "items": [POD]}).encode()
        content = b"caf\xe9\nand a whole line\n" if self.path == LOG else pods
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        """Nothing is shown."""


def test_a_line_that_is_no_text_is_shown_as_far_as_it_is() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        found = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
        workflows = Workflows(Connection(found, patience=10), "n", found.host)
        try:
            said = workflows.last_lines("w", 3)
        finally:
            workflows.close()
            server.shutdown()
            thread.join()
    assert said == {"w-train": ["caf\N{REPLACEMENT CHARACTER}", "and a whole line"]}

"""Argo's workflows in a namespace, as whoever submits one sees them: made, watched, and heard.

They are written and read as they are in YAML: Argo's own fields, no objects of a library. The namespace is
the one that kubectl would take, unless another is named.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kubernetes import config
from kubernetes.config import incluster_config

from elastic_runtime.platform.kubernetes.api import PATIENCE_SECONDS, WATCH_SECONDS, Api
from elastic_runtime.platform.kubernetes.connection import READ_SECONDS, Connection, configuration
from elastic_runtime.platform.kubernetes.errors import Expired, NotThere

_GROUP = "/apis/argoproj.io/v1alpha1"
_WORKFLOW, _NODE = "workflows.argoproj.io/workflow", "workflows.argoproj.io/node-id"


class Workflows:
    """Those of one namespace."""

    def __init__(self, connection: Connection, namespace: str, server: str) -> None:
        self.connection, self.namespace, self.server = connection, namespace, server
        self.api = Api(connection, namespace)

    @classmethod
    def connect(cls, namespace: str = "", *, patience: float = PATIENCE_SECONDS) -> Workflows:
        """By the service account of the pod this process is in, else as kubectl would. Asks nothing yet."""
        found = configuration(force_kube_config_file=False)
        return cls(Connection(found, patience=patience), namespace or own_namespace(), found.host)

    def patient(self, seconds: float) -> Workflows:
        """The same, waiting so long for a server that is away."""
        return Workflows(self.connection.patient(seconds), self.namespace, self.server)

    def close(self) -> None:
        """End all streams and all waiting for a server that is away."""
        self.connection.close()

    def are_known(self) -> bool:
        """Whether the cluster has heard of workflows."""
        try:
            listed = self.connection.ask("GET", _GROUP, kind="object")
        except NotThere:
            return False
        return any(each["name"] == "workflows" for each in listed["resources"])

    def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Make one; returns it as it was made."""
        return dict(self.connection.ask("POST", self._place(), body=dict(manifest), kind="object"))

    def changes(self, name: str) -> Iterator[dict[str, Any] | None]:
        """The workflow as it is, then as each change leaves it; None once it is not there any more."""
        while (found := self.api.get_workflow(name)) is not None:
            yield found
            which = {"fieldSelector": f"metadata.name={name}", "timeoutSeconds": f"{WATCH_SECONDS:.0f}"}
            query = {"watch": "true", "resourceVersion": found["metadata"]["resourceVersion"], **which}
            silence = WATCH_SECONDS + READ_SECONDS
            events = self.connection.stream(self._place(), query, _event, silence)
            try:
                for event in events:
                    if event["type"] in {"ERROR", "DELETED"}:
                        break  # the next look tells
                    yield event["object"]
            except Expired:
                continue
            finally:
                events.stop()
        yield None

    def last_lines(self, name: str, lines: int) -> dict[str, list[str]]:
        """The end of what each step's pod has written, by the node's id; pods that are gone say nothing."""
        found = {}
        for pod in self.api.list_pods(f"{_WORKFLOW}={name}").items:
            if node := (pod.metadata.annotations or {}).get(_NODE):
                with contextlib.suppress(NotThere):
                    found[node] = [*self.api.pod_log(pod.metadata.name, container="main", tail=lines)]
        return found

    def _place(self) -> str:
        return f"{_GROUP}/namespaces/{quote(self.namespace, safe='')}/workflows"


def _event(line: bytes) -> dict[str, Any]:
    """Of a watch; a proxy may cut one off, and that is as good as the end of the watch."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return {"type": "ERROR"}


def own_namespace() -> str:
    """The namespace that kubectl takes when none is named."""
    token = Path(incluster_config.SERVICE_TOKEN_FILENAME)
    if token.exists():
        return token.with_name("namespace").read_text().strip()
    _, current = config.list_kube_config_contexts(os.environ.get("KUBECONFIG") or "~/.kube/config")
    return str(current["context"].get("namespace") or "default")

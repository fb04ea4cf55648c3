"""The Kubernetes API as far as this program needs it: one namespace, plain methods, errors in plain words.

While the server is away (it restarts, it is overloaded, a line is cut) a request is made again until it is
answered or the caller's patience ends. So one whose answer was lost may have been carried out before: a
`create_*` can find its own work (`AlreadyThere`). Objects are those of the package `kubernetes`. All methods
may be called from any thread.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Protocol
from urllib.parse import quote

from elastic_runtime.platform.kubernetes.connection import READ_SECONDS, Connection, configuration
from elastic_runtime.platform.kubernetes.errors import (
    AlreadyThere,
    ApiError,
    Away,
    Changed,
    Expired,
    Forbidden,
    Invalid,
    NoQuota,
    NotThere,
    StillThere,
    of_status,
)
from elastic_runtime.platform.kubernetes.stream import Stream

__all__ = [
    "AlreadyThere",
    "Api",
    "ApiError",
    "Away",
    "Changed",
    "Expired",
    "Forbidden",
    "Invalid",
    "NoQuota",
    "NotThere",
    "StillThere",
    "Stream",
]

PATIENCE_SECONDS = 60.0
WATCH_SECONDS = 300.0
"""The server ends a watch after so long."""
_KINDS = {"pods": "V1Pod", "services": "V1Service", "secrets": "V1Secret", "configmaps": "V1ConfigMap"}
_MERGE, _STRATEGIC, _JSON_PATCH = (
    f"application/{kind}+json" for kind in ("merge-patch", "strategic-merge-patch", "json-patch")
)


class Owner(Protocol):
    """An object with which others are removed."""

    def reference(self) -> Any:
        """The `V1OwnerReference` that its dependents carry."""
        ...


class Api:
    """One namespace of a cluster."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection, self.namespace = connection, namespace

    @classmethod
    def connect(
        cls, namespace: str, *, force_kube_config_file: bool = False, patience: float = PATIENCE_SECONDS
    ) -> Api:
        """By the service account of the pod this process is in, else as kubectl would. Asks nothing yet."""
        found = configuration(force_kube_config_file=force_kube_config_file)
        return cls(Connection(found, patience=patience), namespace)

    def patient(self, seconds: float) -> Api:
        """The same, waiting so long for a server that is away; `math.inf`: until `close`."""
        other = copy.copy(self)
        other._connection = self._connection.patient(seconds)
        return other

    def close(self) -> None:
        """End all streams and all waiting for a server that is away."""
        self._connection.close()

    def create_pod(self, pod: Any) -> Any:
        """Make a `V1Pod`; returns it as it was made."""
        return self._create("pods", pod)

    def require_pods(self) -> None:
        """Raise `Forbidden`, in the server's own words, if this account may not make pods; makes none."""
        with suppress(Invalid):  # which it asks only of those who may
            self._ask("POST", "pods", body={"kind": "Pod"}, kind="V1Pod", dryRun="All")

    def get_pod(self, name: str) -> Any:
        """The `V1Pod`, or None."""
        return self._get("pods", name)

    def list_pods(self, selector: str) -> Any:
        """A `V1PodList`."""
        return self._list("pods", selector)

    def patch_pod(self, name: str, patch: dict[str, Any]) -> Any:
        """Change it by a JSON merge patch; returns it as it is then."""
        return self._ask("PATCH", "pods", name, body=patch, kind="V1Pod", content=_MERGE)

    def delete_pod(self, name: str, *, grace: int | None = None, uid: str | None = None) -> None:
        """Have it deleted, giving it `grace` seconds; one that is gone, or has another `uid`, is no error."""
        options: dict[str, Any] = {} if grace is None else {"gracePeriodSeconds": grace}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            self._delete("pods", name, options)
        except Changed:
            if uid is None:
                raise

    def await_address(self, name: str, *, seconds: float) -> str:
        """Address of the pod, which its node tells of a little after the pod's processes have begun."""
        until = time.monotonic() + seconds
        while (pod := self.get_pod(name)) is not None:
            if pod.status.pod_ip:
                return str(pod.status.pod_ip)
            left = until - time.monotonic()
            if left <= 0:
                raise ApiError(f"pod {name} has no address after {seconds:g} s", where="Kubernetes")
            which = {"fieldSelector": f"metadata.name={name}"}
            with suppress(Expired):
                any(
                    kind == "DELETED" or seen.status.pod_ip
                    for kind, seen in self._watch(which, pod.metadata.resource_version, left)
                    if kind != "BOOKMARK"
                )
        raise NotThere(f"pod {name} is gone, and never had an address", where="Kubernetes")

    def await_gone(self, name: str, *, uid: str, seconds: float) -> None:
        """Return once there is no pod of this name and `uid`; raise `StillThere` if it takes longer."""
        until = time.monotonic() + seconds
        while (pod := self.get_pod(name)) is not None and pod.metadata.uid == uid:
            left = until - time.monotonic()
            if left <= 0:
                raise StillThere(
                    f"pod {name} is still there",
                    where="Kubernetes",
                    remedy=f"`kubectl get pod {name} -o yaml` shows its node, and its finalizers",
                )
            which = {"fieldSelector": f"metadata.name={name}"}
            with suppress(Expired):
                any(kind == "DELETED" for kind, _ in self._watch(which, pod.metadata.resource_version, left))

    def watch_pods(self, selector: str, resource_version: str) -> Stream[tuple[str, Any]]:
        """Type and `V1Pod` of each event after that version.

        Ends when the server or a broken line ends it; raises `Expired` if the version is too old. An event
        `BOOKMARK` only moves the version forward.
        """
        return self._watch({"labelSelector": selector}, resource_version, WATCH_SECONDS)

    def pod_log(
        self,
        name: str,
        *,
        container: str = "",
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
    ) -> Stream[str]:
        """The lines of a pod's log, or its last `tail` lines; with `follow`, those to come until it ends.

        `since` a moment, in seconds since the epoch, leaves out what was written before. Bytes that are no
        text come as such.
        """
        query = {"follow": "true"} if follow else {}
        if container:
            query["container"] = container
        if tail is not None:
            query["tailLines"] = str(tail)
        if since is not None:
            query["sinceTime"] = datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")
        silence = None if follow else READ_SECONDS
        return self._connection.stream(self._place("pods", name, "log"), query, _text, silence)

    def pod_events(self, name: str) -> list[Any]:
        """What scheduler, node and others told of a pod: `CoreV1Event`s, oldest first."""
        fields = f"involvedObject.kind=Pod,involvedObject.name={name}"
        listing = self._ask("GET", "events", kind="CoreV1EventList", fieldSelector=fields)
        return sorted(listing.items, key=lambda event: event.metadata.creation_timestamp)

    def create_service(self, service: Any) -> Any:
        """Make a `V1Service`; returns it as it was made."""
        return self._create("services", service)

    def get_service(self, name: str) -> Any:
        """The `V1Service`, or None."""
        return self._get("services", name)

    def list_services(self, selector: str) -> Any:
        """A `V1ServiceList`."""
        return self._list("services", selector)

    def delete_service(self, name: str) -> None:
        """Have it deleted; one that is gone is no error."""
        self._delete("services", name)

    def create_config_map(self, config_map: Any) -> Any:
        """Make a `V1ConfigMap`; returns it as it was made."""
        return self._create("configmaps", config_map)

    def get_config_map(self, name: str) -> Any:
        """The `V1ConfigMap`, or None."""
        return self._get("configmaps", name)

    def list_config_maps(self, selector: str) -> Any:
        """A `V1ConfigMapList`."""
        return self._list("configmaps", selector)

    def patch_config_map(self, name: str, patch: dict[str, Any] | Sequence[dict[str, Any]]) -> Any:
        """Change it by a JSON merge patch, or by the operations of a JSON patch; returns all of it."""
        return self._patch(name, patch, _MERGE if isinstance(patch, dict) else _JSON_PATCH)

    def add_owner(self, name: str, owner: Owner) -> Any:
        """Add an owner to those a ConfigMap has; returns all of it."""
        return self._patch(name, {"metadata": {"ownerReferences": [owner.reference()]}}, _STRATEGIC)

    def replace_config_map(self, config_map: Any) -> Any:
        """Put this in its place; if it names a version and another is there: `Changed`."""
        return self._ask("PUT", "configmaps", config_map.metadata.name, body=config_map, kind="V1ConfigMap")

    def delete_config_map(self, name: str) -> None:
        """Have it deleted; one that is gone is no error."""
        self._delete("configmaps", name)

    def create_secret(self, secret: Any) -> Any:
        """Make a `V1Secret`; returns it as it was made."""
        return self._create("secrets", secret)

    def get_secret(self, name: str) -> Any:
        """The `V1Secret`, or None."""
        return self._get("secrets", name)

    def delete_secret(self, name: str) -> None:
        """Have it deleted; one that is gone is no error."""
        self._delete("secrets", name)

    def delete_all(self, selector: str) -> int:
        """Have all pods, services, secrets and ConfigMaps with these labels deleted; how many those are."""
        count = 0
        for resource in _KINDS:
            for found in self._list(resource, selector).items:
                self._delete(resource, found.metadata.name)
                count += 1
        return count

    def get_workflow(self, name: str) -> dict[str, Any] | None:
        """One of Argo's workflows as it is written, or None."""
        place = f"/apis/argoproj.io/v1alpha1/namespaces/{self.namespace}/workflows/{quote(name, safe='')}"
        try:
            return dict(self._connection.ask("GET", place, kind="object"))
        except NotThere:
            return None

    def may(self, verb: str, resource: str) -> bool:
        """Whether this account may do it in the namespace, to `pods` or to a part such as `pods/log`."""
        resource, _, part = resource.partition("/")
        asked = {"namespace": self.namespace, "verb": verb, "resource": resource, "subresource": part}
        place = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        body = {"spec": {"resourceAttributes": asked}}
        answer = self._connection.ask("POST", place, body=body, kind="V1SelfSubjectAccessReview")
        return bool(answer.status.allowed)

    def _create(self, resource: str, body: Any) -> Any:
        return self._ask("POST", resource, body=body, kind=_KINDS[resource])

    def _get(self, resource: str, name: str) -> Any:
        try:
            return self._ask("GET", resource, name, kind=_KINDS[resource])
        except NotThere:
            return None

    def _list(self, resource: str, selector: str) -> Any:
        return self._ask("GET", resource, kind=f"{_KINDS[resource]}List", labelSelector=selector)

    def _delete(self, resource: str, name: str, options: dict[str, Any] | None = None) -> None:
        with suppress(NotThere):
            self._ask("DELETE", resource, name, body=options)

    def _patch(self, name: str, patch: Any, content: str) -> Any:
        return self._ask("PATCH", "configmaps", name, body=patch, kind="V1ConfigMap", content=content)

    def _watch(self, which: dict[str, str], version: str, seconds: float) -> Stream[tuple[str, Any]]:
        until = {"timeoutSeconds": str(math.ceil(seconds)), "allowWatchBookmarks": "true"}
        query = {"watch": "true", "resourceVersion": version, **until, **which}
        silence = seconds + READ_SECONDS
        return self._connection.stream(self._place("pods"), query, self._event, silence, whole_lines=True)

    def _event(self, line: bytes) -> tuple[str, Any]:
        try:
            event = json.loads(line)
            kind, found = event["type"], event["object"]
        except (ValueError, KeyError, TypeError) as problem:
            raise ApiError(
                f"not an event of a watch: {line[:80]!r}", where="Kubernetes", remedy="is a proxy in between?"
            ) from problem
        if kind == "ERROR":
            raise of_status(found)
        if kind == "BOOKMARK":  # all but its version is empty, which a pod's specification may not be
            found = {"metadata": found["metadata"]}
        return kind, self._connection.understood(SimpleNamespace(data=json.dumps(found)), "V1Pod")

    def _ask(self, method: str, *place: str, **request: Any) -> Any:
        return self._connection.ask(method, self._place(*place), **request)

    def _place(self, *parts: str) -> str:
        return "/".join(["/api/v1/namespaces", *(quote(part, safe="") for part in (self.namespace, *parts))])


def _text(line: bytes) -> str:
    return line.decode(errors="replace")

"""One namespace of a cluster, in memory, as far as jobs ask for it; nothing happens there by itself.

`happens` is what the test has happen: to a pod as it is made, and, one after the other, when somebody has
watched until there was nothing new.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from kubernetes import client

from elastic_runtime.platform.kubernetes.errors import AlreadyThere, Invalid, NotThere

Event = tuple[str, client.V1Pod]


class Watch:
    """The events of a watch, until it is stopped."""

    def __init__(self, happens: list[Callable[[], Event]]) -> None:
        self._happens, self._stopped = happens, queue.SimpleQueue[None]()

    def __iter__(self) -> Iterator[Event]:
        while self._stopped.empty():
            if self._happens:
                yield self._happens.pop(0)()
            else:
                self._stopped.get(timeout=60)
                return

    def stop(self) -> None:
        self._stopped.put(None)


class Lines(list[str]):
    """A log."""

    def stop(self) -> None:
        """There is nothing to stop."""


class SmallApi:
    """See above."""

    namespace = "n"

    def __init__(self) -> None:
        self.pods: dict[str, client.V1Pod] = {}
        self.others: dict[tuple[str, str], Any] = {}
        self.made = 0
        self.events: list[Any] = []
        self.begins: Callable[[client.V1Pod], None] = lambda _: None
        self.happens: list[Callable[[], Event]] = []

    def patient(self, _: float) -> SmallApi:
        return self

    def create_pod(self, pod: client.V1Pod) -> client.V1Pod:
        if pod.metadata.name in self.pods:
            raise AlreadyThere("already there")
        self._make(pod)
        pod.status = client.V1PodStatus(phase="Pending")
        self.pods[pod.metadata.name] = pod
        self.begins(pod)
        return pod

    def get_pod(self, name: str) -> client.V1Pod | None:
        return self.pods.get(name)

    def list_pods(self, selector: str) -> Any:
        wanted = dict(term.split("=") for term in selector.split(",") if "=" in term)
        items = [pod for pod in self.pods.values() if wanted.items() <= pod.metadata.labels.items()]
        return SimpleNamespace(items=items, metadata=SimpleNamespace(resource_version="1"))

    def watch_pods(self, *_: str) -> Watch:
        return Watch(self.happens)

    def delete_pod(self, name: str, *, grace: int | None = None, uid: str | None = None) -> None:
        assert grace == 0, "nothing here ends by itself"
        if name in self.pods and self.pods[name].metadata.uid == uid:
            del self.pods[name]

    def await_gone(self, name: str, *, uid: str, seconds: float) -> None:
        assert name not in self.pods or self.pods[name].metadata.uid != uid, f"not within {seconds} s"

    def delete_all(self, selector: str) -> int:
        wanted = dict([selector.split("=")])
        there = {**self.pods, **self.others}
        gone = [key for key, each in there.items() if wanted.items() <= each.metadata.labels.items()]
        for key in gone:
            (self.pods if key in self.pods else self.others).pop(key)
        return len(gone)

    def pod_log(self, *_: str, **__: bool) -> Lines:
        return Lines()

    def pod_events(self, _: str) -> list[Any]:
        return self.events

    def get_config_map(self, name: str) -> Any:
        return self.others.get(("ConfigMap", name))

    def list_config_maps(self, _: str) -> Any:
        return SimpleNamespace(items=[each for (kind, _), each in self.others.items() if kind == "ConfigMap"])

    def create_config_map(self, made: Any) -> Any:
        return self._create(made)

    def delete_config_map(self, name: str) -> None:
        del self.others["ConfigMap", name]

    def patch_config_map(self, name: str, patch: dict[str, Any] | list[dict[str, Any]]) -> Any:
        """A merge patch, or a JSON patch as journals make it; of owners nothing is known here."""
        if (found := self.others.get(("ConfigMap", name))) is None:
            raise NotThere(f"configmaps {name!r} not found")
        if not isinstance(patch, dict):
            patch = _as_merge_patch(patch, {"data": found.data, "binaryData": found.binary_data})
        found.data = _merged(found.data, patch.get("data", {}))
        found.binary_data = _merged(found.binary_data, patch.get("binaryData", {}))
        return found

    def add_owner(self, *_: Any) -> None:
        """Likewise."""

    def get_secret(self, name: str) -> Any:
        return self.others.get(("Secret", name))

    def create_secret(self, made: Any) -> Any:
        return self._create(made)

    def delete_secret(self, name: str) -> None:
        del self.others["Secret", name]

    def get_service(self, name: str) -> Any:
        return self.others.get(("Service", name))

    def create_service(self, made: Any) -> Any:
        return self._create(made)

    def delete_service(self, name: str) -> None:
        del self.others["Service", name]

    def _create(self, made: Any) -> Any:
        if (made.kind, made.metadata.name) in self.others:
            raise AlreadyThere("already there")
        self._make(made)
        return self.others.setdefault((made.kind, made.metadata.name), made)

    def _make(self, made: Any) -> None:
        self.made += 1
        made.metadata.uid = f"{self.made}"
        made.metadata.creation_timestamp = datetime.now(UTC)


def _as_merge_patch(
    operations: list[dict[str, Any]], there: dict[str, dict[str, str]]
) -> dict[str, dict[str, str | None]]:
    changes: dict[str, dict[str, str | None]] = {part: {} for part in there}
    for each in operations:
        _, part, key = each["path"].split("/")
        if each["op"] != "test":
            changes[part][key] = each.get("value")
        elif there[part].get(key) != each["value"]:
            raise Invalid(f"test of {key} failed")
    return changes


def _merged(there: dict[str, str] | None, changes: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**(there or {}), **changes}.items() if value is not None}


def runs(pod: client.V1Pod) -> None:
    """Its container has begun."""
    state = client.V1ContainerState(running=client.V1ContainerStateRunning())
    _is(pod, "Running", state)


def is_on_a_node(pod: client.V1Pod) -> None:
    """Which has heard of it, and makes its container."""
    _is(pod, "Pending", client.V1ContainerState(waiting=client.V1ContainerStateWaiting("ContainerCreating")))


def ends(pod: client.V1Pod, code: int) -> None:
    """Its container has ended."""
    state = client.V1ContainerState(terminated=client.V1ContainerStateTerminated(exit_code=code))
    _is(pod, "Failed" if code else "Succeeded", state)


def is_deleted(pod: client.V1Pod) -> None:
    """Somebody has asked for its deletion."""
    pod.metadata.deletion_timestamp = datetime.now(UTC)


def _is(pod: client.V1Pod, phase: str, state: client.V1ContainerState) -> None:
    container = client.V1ContainerStatus(
        name="main", image="i", image_id="", ready=False, restart_count=0, state=state
    )
    now = datetime.now(UTC)
    pod.status = client.V1PodStatus(phase=phase, start_time=now, container_statuses=[container])

"""What goes wrong in a real cluster, each as one line of a test.

What can be healed is a context: the fault begins at `with`, and at the end of the block it is healed, and
known to be. What cannot is a function. All is done by the means of the real thing: power, packets, the
scheduler, the API.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cluster.kit import network, objects
from tests.cluster.kit.cluster import PATIENCE_SECONDS, Cluster
from tests.cluster.kit.commands import until
from tests.cluster.kit.control_plane import URGENT
from tests.cluster.kit.site import CONTROL_PLANE


@contextmanager
def lost(cluster: Cluster, node: str) -> Iterator[None]:
    """The node loses its power; at the end it boots again, with its disk."""
    cluster.node(node).power_off()
    try:
        yield
    finally:
        bring_back(cluster, node)


def bring_back(cluster: Cluster, node: str) -> None:
    """Boots a node that has no power, and returns when it is Ready."""
    cluster.node(node).boot()
    cluster.node(node).join()
    cluster.wait_for_nodes(cluster.node(node))


@contextmanager
def partitioned(cluster: Cluster, one: str, other: str) -> Iterator[None]:
    """No packet passes between two nodes and their pods, or between one and `control-plane`."""
    (machine, sources), (other_machine, other_sources) = cluster.machine(one), cluster.machine(other)
    network.drop(machine, other_sources)
    network.drop(other_machine, sources)
    try:
        yield
    finally:
        network.hear(machine, other_sources)
        network.hear(other_machine, sources)
        if CONTROL_PLANE in {one, other}:
            cluster.wait_for_nodes(*(cluster.node(name) for name in (one, other) if name != CONTROL_PLANE))


@contextmanager
def api_server_stopped(cluster: Cluster) -> Iterator[None]:
    """The API server is gone and connections to it are refused; at the end it starts again.

    Controllers, which wait half a minute before they look for it once more, are started anew: here a node
    whose signs of life they have not seen for `LOST_AFTER_SECONDS` is lost.
    """
    cluster.control_plane.stop_api_server()
    try:
        yield
    finally:
        cluster.control_plane.stop_controller_manager()
        cluster.control_plane.start_api_server()
        cluster.control_plane.wait_for_api()
        cluster.wait_for_signs_of_life(datetime.now(UTC))  # else the controllers may take a node for lost
        cluster.control_plane.start_controller_manager()
        cluster.control_plane.restart_argo()
        cluster.wait_for_nodes()


@contextmanager
def filled(cluster: Cluster, node: str, *, but: int = 0) -> Iterator[None]:
    """Another's pod takes the processors of a node that are free, all `but` so many millicores."""
    name = f"kit-filler-{node}"
    requests = {"cpu": f"{free(cluster, node) - but}m"}
    cluster.apply(objects.pod(name, cluster.image("pause"), node=node, requests=requests))
    try:
        cluster.wait("--for=condition=PodScheduled", f"pod/{name}")
        yield
    finally:
        delete(cluster, name, grace=0)


@contextmanager
def preempted(cluster: Cluster, node: str, *, millicores: int) -> Iterator[None]:
    """A more urgent pod takes so many millicores of the node; as the block begins, others have made room."""
    name, requests = f"{URGENT}-{node}", {"cpu": f"{millicores}m"}
    cluster.apply(
        objects.pod(name, cluster.image("pause"), node=node, requests=requests, priorityClassName=URGENT)
    )
    try:
        cluster.wait("--for=condition=PodScheduled", f"pod/{name}")
        yield
    finally:
        delete(cluster, name, grace=0)


@contextmanager
def tainted(cluster: Cluster, node: str, taint: str) -> Iterator[None]:
    """The node has a taint, such as `kit/broken=true:NoExecute`."""
    cluster.kubectl("taint", "node", node, taint)
    try:
        yield
    finally:
        cluster.kubectl("taint", "node", node, f"{taint}-")


@contextmanager
def cordoned(cluster: Cluster, node: str) -> Iterator[None]:
    """No new pod gets on the node."""
    cluster.kubectl("cordon", node)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", node)


@contextmanager
def drained(cluster: Cluster, node: str) -> Iterator[None]:
    """The node is cordoned and all its pods are evicted; when the block begins they have gone."""
    with cordoned(cluster, node):
        cluster.kubectl(
            "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=300s"
        )
        yield


def evict(cluster: Cluster, name: str, *, namespace: str = "default") -> None:
    """Evicts a pod as the node's own drain would, heeding disruption budgets."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    place = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    cluster.kubectl("create", "--raw", place, "-f", "-", given=json.dumps(eviction))


def delete(cluster: Cluster, name: str, *, namespace: str = "default", grace: int | None = None) -> None:
    """Deletes a pod, and returns when it has gone; with `grace=0` at once."""
    hurry = () if grace is None else (f"--grace-period={grace}", *(("--force",) if grace == 0 else ()))
    cluster.kubectl("delete", "pod", name, f"--namespace={namespace}", *hurry)


def kill(environment: Mapping[str, str]) -> None:
    """kill -9 of each process that was given these variables; those of the nodes' pods are this machine's."""
    marks = {f"{name}={value}".encode() for name, value in environment.items()}
    for number in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if marks <= {*Path(f"/proc/{number}/environ").read_bytes().split(b"\0")}:
                os.kill(int(number), signal.SIGKILL)


def free(cluster: Cluster, node: str) -> int:
    """The millicores of a node that no pod asks for, once those that are on their way out have left it."""
    until(
        lambda: not _leaving(cluster, node),
        what=f"the pods of tests before have left {node}",
        seconds=PATIENCE_SECONDS,
    )
    allocatable = objects.millicores(cluster.get("node", node)["status"]["allocatable"]["cpu"])
    return allocatable - objects.requested(_pods(cluster, node))


def _pods(cluster: Cluster, node: str) -> list[Any]:
    found = cluster.get("pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}")["items"]
    return [pod for pod in found if pod["status"].get("phase") not in {"Succeeded", "Failed"}]


def _leaving(cluster: Cluster, node: str) -> bool:
    """Whether there are pods that are being deleted, or whose namespace is."""
    spaces = cluster.get("namespaces")["items"]
    going = {each["metadata"]["name"] for each in spaces if each["status"]["phase"] == "Terminating"}
    found = (pod["metadata"] for pod in _pods(cluster, node))
    return any("deletionTimestamp" in pod or pod["namespace"] in going for pod in found)

"""Kubernetes objects that faults and tests make, as plain dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def pod(
    name: str,
    image: str,
    *command: str,
    node: str = "",
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod of one container, on `node` if one is named; `spec` has more of the pod's fields."""
    container: dict[str, Any] = {"name": "main", "image": image, "resources": {}}
    if command:
        container["command"] = list(command)
    if requests:
        container["resources"]["requests"] = dict(requests)
    if limits:
        container["resources"]["limits"] = dict(limits)
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    defaults = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {**defaults, **spec, "containers": [container]},
    }


def service(name: str, selector: Mapping[str, str], port: int) -> dict[str, Any]:
    """A service for the pods with these labels."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": dict(selector), "ports": [{"port": port}]},
    }


def millicores(quantity: str) -> int:
    """Of processors: `1500m`, `1.5` and `2` are what Kubernetes writes."""
    return int(quantity[:-1]) if quantity.endswith("m") else round(1000 * float(quantity))


def requested(pods: Sequence[Mapping[str, Any]]) -> int:
    """The processors, in millicores, that pods which have not ended ask for together."""
    running = [each for each in pods if each.get("status", {}).get("phase") not in {"Succeeded", "Failed"}]
    containers = [container for each in running for container in each["spec"]["containers"]]
    wanted = [container.get("resources", {}).get("requests", {}).get("cpu", "0") for container in containers]
    return sum(millicores(quantity) for quantity in wanted)

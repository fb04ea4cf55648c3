"""`--cluster_spec_json`: what an on-premises cluster demands of pods and services, as data.

Sections are `pod_spec` (every pod), `master_pod_spec`, `ps_pod_spec`, `worker_pod_spec` and `service_spec`.
What they hold is added to what is there, labels, annotations and variables by name, tolerations, volumes and
mounts at the end; an affinity and the fields of a service are replaced.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubernetes.client import V1Pod, V1Service

from elastic_runtime.errors import InputError, nearest
from elastic_runtime.platform.kubernetes.models import read
from elastic_runtime.platform.pods import Role

_OPTION = "--cluster_spec_json"
_PODS = ("pod_spec", *(f"{role}_pod_spec" for role in Role))
_SERVICES = "service_spec"
_PARTS = {
    "labels": "dict(str, str)",
    "annotations": "dict(str, str)",
    "affinity": "V1Affinity",
    "tolerations": "list[V1Toleration]",
    "env": "list[V1EnvVar]",
    "volumes": "list[V1Volume]",
    "volumeMounts": "list[V1VolumeMount]",
}


@dataclass(frozen=True, slots=True)
class ClusterJson:
    """The sections, each part of them as what it is to become."""

    sections: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> ClusterJson:
        """What the option says; an unknown key at any depth is an error."""
        try:
            given = json.loads(text or "{}")
        except ValueError as error:
            raise InputError(f"is not JSON: {error}", where=_OPTION) from None
        _check_keys(given, (*_PODS, _SERVICES), _OPTION)
        return cls({name: _section(name, value) for name, value in given.items()})

    def change_pod(self, pod: V1Pod, role: Role) -> None:
        """What all pods get, and then what those of this role get."""
        for name in ("pod_spec", f"{role}_pod_spec"):
            _add(pod, copy.deepcopy(self.sections.get(name, {})))

    def change_service(self, service: V1Service) -> None:
        """Replace the fields that are given."""
        wanted = copy.deepcopy(self.sections.get(_SERVICES))
        for name in wanted.openapi_types if wanted else ():
            if getattr(wanted, name) is not None:
                setattr(service.spec, name, getattr(wanted, name))


def _section(name: str, given: Any) -> Any:
    where = f"{_OPTION}: {name}"
    if name == _SERVICES:
        return read("V1ServiceSpec", given, where)
    _check_keys(given, _PARTS, where)
    return {part: read(_PARTS[part], value, f"{where}.{part}") for part, value in given.items()}


def _check_keys(given: Any, known: Collection[str], where: str) -> None:
    if not isinstance(given, dict):
        raise InputError(f"got {given!r}", where=where, remedy="give {...}")
    for key in given:
        if key not in known:
            raise InputError(f"unknown key {key!r}", where=where, remedy=nearest(key, known))


def _add(pod: V1Pod, parts: Mapping[str, Any]) -> None:
    pod.metadata.labels |= parts.get("labels", {})
    pod.metadata.annotations |= parts.get("annotations", {})
    pod.spec.affinity = parts.get("affinity", pod.spec.affinity)
    pod.spec.tolerations += parts.get("tolerations", [])
    pod.spec.volumes += parts.get("volumes", [])
    pod.spec.containers[0].volume_mounts += parts.get("volumeMounts", [])
    container, added = pod.spec.containers[0], parts.get("env", [])
    names = {variable.name for variable in added}
    container.env = [variable for variable in container.env if variable.name not in names] + added

"""What was set on a pipeline's task the ordinary way, as options of the job whose pods it is meant for.

KFP hands it over as fragments of a pod (`dsl.TaskConfig`). Workers and parameter servers get all of it;
accelerators go to workers only, and what the job's own options say wins; `cluster_spec_json` does so entry by
entry, for it may be about something else. A role whose request or limit is among the options has neither from
the task: the step may be small and its workers large. A limit on CPU or memory alone is the request, too, as
Kubernetes takes it: the job's default request may be above it. A request without a limit has none, unlike the
job's own. Of volumes, claims and folders of the node become the job's `volume`; others, such as secrets, go
into the pods as they are. A server that knows no `dsl.TaskConfig` hands nothing over: there the step's own
pod tells (`platform/kubernetes/own_pod.py`), and locally nothing does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from elastic_runtime.errors import InputError
from elastic_runtime.spec.pairs import envs
from elastic_runtime.spec.resources import UNLIMITED

_OF_A_DEVICE = "/"  # it is after its vendor's domain
_WITH_A_REQUEST = ("cpu", "memory", "ephemeral-storage")
_ROLES = ("worker", "ps")
_NAMED_BY = {"env": "name", "volumes": "name", "volumeMounts": "mountPath"}


class TaskSettings(Protocol):
    """Fragments of a Kubernetes pod, each None when nothing was set; KFP's `dsl.TaskConfig` is such."""

    affinity: dict[str, Any] | None
    tolerations: list[dict[str, Any]] | None
    node_selector: dict[str, str] | None
    env: list[dict[str, Any]] | None
    volumes: list[dict[str, Any]] | None
    volume_mounts: list[dict[str, Any]] | None
    resources: dict[str, Any] | None


def is_told(task: TaskSettings | None) -> bool:
    """Whether there is anything in it."""
    return task is not None and any(vars(task).values())


def from_task(task: TaskSettings | None, given: Mapping[str, object]) -> dict[str, object]:
    """The options that a task's settings amount to, without what is given already."""
    if task is None:
        return {}
    options: dict[str, object] = {
        **_resources(task.resources or {}, given),
        "volume": _volumes(task.volumes or [], task.volume_mounts or []),
        "node_selector": _pairs(task.node_selector or {}),
    }
    options = {name: value for name, value in options.items() if value and name not in given}
    pod_spec = _pod_spec(task, given)
    return options | {"cluster_spec_json": _beside(pod_spec, given)} if pod_spec else options


def in_words(task: TaskSettings, given: Mapping[str, object]) -> str:
    """What of a task's settings the job takes, without the values of variables; empty if nothing."""
    options = {name: value for name, value in from_task(task, given).items() if name != "cluster_spec_json"}
    pod_spec = _pod_spec(task, given)
    parts = [f"{name}={value}" for name, value in options.items()]
    for part, by in {"tolerations": "key", "env": "name", "volumes": "name"}.items():
        if names := [str(entry.get(by, "all")) for entry in pod_spec.get(part, ())]:
            parts.append(f"{part} {', '.join(names)}")
    return "; ".join([*parts, *(["affinity"] if "affinity" in pod_spec else [])])


def _resources(resources: Mapping[str, Mapping[str, str]], given: Mapping[str, object]) -> dict[str, str]:
    requests, limits = (resources.get(kind) or {} for kind in ("requests", "limits"))
    alone = {name: value for name, value in limits.items() if name in _WITH_A_REQUEST}
    found = {}
    for role in _ROLES:
        if {f"{role}_resource_request", f"{role}_resource_limit"} & given.keys():
            continue
        for option, wanted in (("request", {**alone, **requests}), ("limit", limits)):
            found[f"{role}_resource_{option}"] = _pairs(
                {name: v for name, v in wanted.items() if role == "worker" or _OF_A_DEVICE not in name}
            )
        if requests and not found[f"{role}_resource_limit"]:
            found[f"{role}_resource_limit"] = UNLIMITED
    return found


def _volumes(volumes: Iterable[Mapping[str, Any]], mounts: Iterable[Mapping[str, Any]]) -> str:
    by_name = {volume["name"]: volume for volume in volumes if _is_an_option(volume)}
    return ";".join(_volume(by_name[mount["name"]], mount) for mount in mounts if mount["name"] in by_name)


def _is_an_option(volume: Mapping[str, Any]) -> bool:
    return bool(volume.get("persistentVolumeClaim") or volume.get("hostPath"))


def _volume(volume: Mapping[str, Any], mount: Mapping[str, Any]) -> str:
    keys = {"mount_path": mount["mountPath"], "sub_path": mount.get("subPath", "")}
    if claim := volume.get("persistentVolumeClaim"):
        keys["claim_name"] = claim["claimName"]
    else:
        keys |= {"host_path": volume["hostPath"]["path"], "type": volume["hostPath"].get("type", "")}
    return _pairs({key: value for key, value in keys.items() if value})


def _pod_spec(task: TaskSettings, given: Mapping[str, object]) -> dict[str, Any]:
    volumes = [volume for volume in task.volumes or [] if not _is_an_option(volume)]
    names = {volume["name"] for volume in volumes}
    mounts = [mount for mount in task.volume_mounts or [] if mount["name"] in names]
    env = [each for each in task.env or [] if each["name"] not in _names_of(given.get("envs"))]
    parts = {"env": env, "tolerations": task.tolerations, "affinity": task.affinity}
    parts |= {"volumes": volumes, "volumeMounts": mounts}
    return {name: value for name, value in parts.items() if value}


def _names_of(variables: object) -> Iterable[str]:
    try:
        return envs(str(variables or ""))
    except InputError:  # whoever reads it says what is wrong with it
        return ()


def _beside(pod_spec: Mapping[str, Any], given: Mapping[str, object]) -> str:
    """A pod's fragment for each role, beside the `cluster_spec_json` that is given, if one is."""
    text = str(given.get("cluster_spec_json") or "{}")
    try:
        sections = json.loads(text)
        for role in _ROLES:
            own = sections.get(f"{role}_pod_spec", {})
            sections[f"{role}_pod_spec"] = own | _unnamed(pod_spec, own, sections.get("pod_spec", {}))
    except (ValueError, TypeError, AttributeError):
        return text  # whoever reads it says what is wrong with it
    return json.dumps(sections)


def _unnamed(
    pod_spec: Mapping[str, Any], own: Mapping[str, Any], of_all: Mapping[str, Any]
) -> dict[str, Any]:
    """What the role's own fragment and that of all pods leave of each part, and then the former's."""
    left = {}
    for part, value in pod_spec.items():
        if isinstance(value, list):
            name = _NAMED_BY.get(part, "")
            taken = {entry.get(name) for place in (own, of_all) for entry in place.get(part, []) if name}
            left[part] = [entry for entry in value if entry.get(name) not in taken] + own.get(part, [])
        elif part not in own and part not in of_all:
            left[part] = value
    return left


def _pairs(values: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())

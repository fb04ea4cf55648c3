"""What the pod of a master tells of how the job's other pods are to be: who they are, and what was set on it.

A pod that an engine has made has much in it that is true of it alone: what KFP, Argo and Kubernetes put into
each, and the tokens that clouds inject by its account. The job's pods get those of their own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes.client import ApiClient, V1Pod

from elastic_runtime.platform.kubernetes.container import STEP

_Part = dict[str, Any]

_OF_ENGINES = frozenset(
    {
        *("kfp-launcher", "gcs-scratch", "s3-scratch", "minio-scratch"),
        *("dot-local-scratch", "dot-cache-scratch", "dot-config-scratch"),
        *("var-run-argo", "tmp-dir-argo", "input-artifacts", "argo-staging"),
    }
)
"""Names of the volumes that KFP and Argo give a step."""
_VARIABLE_OF_ENGINES = re.compile(r"(KFP|ARGO)_.*")
_WITH_A_TOKEN = {"AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_FULL_URI"}
"""What is injected beside the path of a token, and keeps another token from being injected."""
_OF_EVERY_POD = {
    (f"node.kubernetes.io/{state}", "Exists", "NoExecute") for state in ("not-ready", "unreachable")
}
"""Tolerations that a cluster adds, for as long as it likes; the job has its own in their place."""
_LIMIT_RANGER = "kubernetes.io/limit-ranger"
_BY_A_LIMIT_RANGE = re.compile(rf"(?:set: |; |^)([^;:]+) (request|limit) for container {STEP}(?=;|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whom a pod runs as, and what its images are pulled with; empty: the namespace's default."""

    name: str = ""
    pull_secrets: tuple[str, ...] = ()

    @classmethod
    def of(cls, pod: V1Pod | None) -> Account:
        """That of a pod."""
        if pod is None:
            return cls()
        secrets = (each.name for each in pod.spec.image_pull_secrets or ())
        return cls(name=pod.spec.service_account_name or "", pull_secrets=tuple(secrets))


@dataclass(kw_only=True)
class Settings:
    """What was set on a step, as fragments of a pod; empty, or None, what was not."""

    affinity: _Part | None
    tolerations: list[_Part] | None
    node_selector: dict[str, str] | None
    env: list[_Part] | None
    volumes: list[_Part] | None
    volume_mounts: list[_Part] | None
    resources: _Part | None


def settings_of(pod: V1Pod) -> Settings:
    """What was set on the step whose pod this is, by whomever, less what each such pod has."""
    spec = _plain(pod.spec)
    main = next(each for each in spec["containers"] if each["name"] == STEP)
    volumes = {each["name"]: each for each in spec.get("volumes", []) if not _is_of_the_pod_alone(each)}
    mounts = [each for each in main.get("volumeMounts", []) if each["name"] in volumes]
    mounted = {each["name"] for each in mounts}
    alone = variables_of_it_alone(pod)
    env = [
        each
        for each in main.get("env", [])
        if each["name"] not in alone and not _VARIABLE_OF_ENGINES.fullmatch(each["name"])
    ]
    return Settings(
        affinity=spec.get("affinity"),
        tolerations=[each for each in spec.get("tolerations", []) if _marks(each) not in _OF_EVERY_POD],
        node_selector=spec.get("nodeSelector"),
        env=env,
        volumes=[each for name, each in volumes.items() if name in mounted],
        volume_mounts=mounts,
        resources=_asked_for(main.get("resources", {}), (pod.metadata.annotations or {})),
    )


def variables_of_it_alone(pod: V1Pod | None) -> Collection[str]:
    """Names of those by which a cloud has told this pod of a token that it gave to no other."""
    if pod is None:
        return frozenset()
    spec = _plain(pod.spec)
    tokens = {each["name"] for each in spec.get("volumes", []) if _has_a_token(each)}
    mounts = [mount for container in spec["containers"] for mount in container.get("volumeMounts", [])]
    paths = tuple(f"{mount['mountPath'].rstrip('/')}/" for mount in mounts if mount["name"] in tokens)
    variables = [each for container in spec["containers"] for each in container.get("env", [])]
    found = {each["name"] for each in variables if each.get("value", "").startswith(paths)}
    return frozenset(found | _WITH_A_TOKEN if found else found)


def _plain(part: Any) -> Any:
    """As it is written in a manifest."""
    return ApiClient().sanitize_for_serialization(part)


def _is_of_the_pod_alone(volume: Mapping[str, Any]) -> bool:
    return volume["name"] in _OF_ENGINES or _has_a_token(volume)


def _has_a_token(volume: Mapping[str, Any]) -> bool:
    sources: Iterable[Mapping[str, Any]] = volume.get("projected", {}).get("sources", ())
    return any("serviceAccountToken" in source for source in sources)


def _marks(toleration: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(toleration.get(name) for name in ("key", "operator", "effect"))


def _asked_for(resources: Mapping[str, Any], annotations: Mapping[str, str]) -> _Part:
    """Without what a LimitRange has added, and the requests of devices, which are those of their limits."""
    added = {
        (name.strip(), f"{kind}s")
        for names, kind in _BY_A_LIMIT_RANGE.findall(annotations.get(_LIMIT_RANGER, ""))
        for name in names.split(",")
    }
    found = {
        kind: {
            name: amount
            for name, amount in (resources.get(kind) or {}).items()
            if (name, kind) not in added and not (kind == "requests" and "/" in name)
        }
        for kind in ("requests", "limits")
    }
    return {kind: amounts for kind, amounts in found.items() if amounts}

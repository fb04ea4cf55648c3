"""The one container of a pod that is the job's: what it asks for, what it is told, and what it may do.

Others may be beside it, which an engine or a mesh has put there: it is told apart by the annotation that
kubectl goes by. A user's text means in it what it means anywhere: Kubernetes' own `$(NAME)` in commands and
variables is switched off.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kubernetes.client import (
    V1Capabilities,
    V1EnvVar,
    V1EnvVarSource,
    V1ObjectFieldSelector,
    V1PodSecurityContext,
    V1ResourceRequirements,
    V1SeccompProfile,
    V1SecretKeySelector,
    V1SecurityContext,
)

from elastic_runtime.spec.resources import limits, parse_resources

TOKEN = "token"  # noqa: S105 - the key in the Secret, not what is under it
USER = 1000
STEP = "main"
"""What Argo, and KFP with it, call the container that a step runs in."""
_FIELDS = {
    "ELASTICDL_POD": "metadata.name",
    "ELASTICDL_POD_IP": "status.podIP",
    "ELASTICDL_POD_UID": "metadata.uid",
    "ELASTICDL_NAMESPACE": "metadata.namespace",
}
OURS = (*_FIELDS, "ELASTICDL_TOKEN")
DEFAULT = "kubectl.kubernetes.io/default-container"
"""The annotation that names it; Argo's pods have it, too."""


def own_container(pod: Any) -> Any:
    """That of the job, or of a step, in a pod that was made; a mesh puts its own before or behind it."""
    named = (pod.metadata.annotations or {}).get(DEFAULT)
    containers = {each.name: each for each in reversed(pod.spec.containers)}
    return containers.get(named) or containers.get(STEP) or pod.spec.containers[0]


def literal(text: str) -> str:
    """The text that Kubernetes, which would replace `$(NAME)` in it, makes this text of."""
    return text.replace("$", "$$")


def plain(text: str) -> str:
    """The inverse of `literal`."""
    return text.replace("$$", "$")


def environment(
    given: Mapping[str, str | V1EnvVarSource], *, secret: str, first: bool = False
) -> list[V1EnvVar]:
    """What was given, or where it is found, and then the job's own variables, which nothing replaces.

    The `first` of a job's pods runs without a secret, too: it is to make it.
    """
    reference = V1SecretKeySelector(name=secret, key=TOKEN, optional=True if first else None)
    token = V1EnvVarSource(secret_key_ref=reference)
    return [
        *(_variable(name, value) for name, value in given.items() if name not in OURS),
        *(V1EnvVar(name=name, value_from=_field(path)) for name, path in _FIELDS.items()),
        V1EnvVar(name="ELASTICDL_TOKEN", value_from=token),
    ]


def resources(request: str, limit: str) -> V1ResourceRequirements:
    """The request, and its limits; devices always have one, as Kubernetes lends none without."""
    wanted = parse_resources(request)
    devices = {name: count for name, count in wanted.items() if "/" in name}
    return V1ResourceRequirements(
        requests=_quantities(wanted), limits=_quantities(devices | limits(request, limit))
    )


def pod_security(*, on_host: bool) -> V1PodSecurityContext:
    """Fit for the "restricted" Pod Security standard, and for volumes to be written by who is not root.

    With a host path no pod is: the node's files belong to whom they belong, so the image says who reads them.
    """
    return V1PodSecurityContext(
        run_as_non_root=None if on_host else True,
        run_as_user=None if on_host else USER,
        fs_group=USER,
        fs_group_change_policy="OnRootMismatch",
        seccomp_profile=V1SeccompProfile(type="RuntimeDefault"),
    )


def container_security(*, on_host: bool) -> V1SecurityContext:
    """No more rights than at the start, and none of root's, which only a host path may need."""
    return V1SecurityContext(
        allow_privilege_escalation=False,
        capabilities=None if on_host else V1Capabilities(drop=["ALL"]),
    )


def _variable(name: str, value: str | V1EnvVarSource) -> V1EnvVar:
    if isinstance(value, V1EnvVarSource):
        return V1EnvVar(name=name, value_from=copy.deepcopy(value))  # a cluster spec may change it
    return V1EnvVar(name=name, value=literal(value))


def _field(path: str) -> V1EnvVarSource:
    return V1EnvVarSource(field_ref=V1ObjectFieldSelector(field_path=path))


def _quantities(amounts: Mapping[str, str]) -> dict[str, str]:
    """As Kubernetes spells them: its thousand is `k`."""
    return {name: f"{amount[:-1]}k" if amount.endswith("K") else amount for name, amount in amounts.items()}

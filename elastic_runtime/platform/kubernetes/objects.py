"""What a job is in Kubernetes' terms: every object of it, made from its specification.

The anchor, a ConfigMap, holds all that outlives a master, and owns the rest; in turn the job's pods own the
anchor. So when the last of them is deleted, by whomever, the cluster removes what is left. Nothing here
speaks to a cluster.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kubernetes.client import (
    V1ConfigMap,
    V1EnvVarSource,
    V1ObjectMeta,
    V1OwnerReference,
    V1Pod,
    V1Secret,
    V1Service,
    V1ServicePort,
    V1ServiceSpec,
)

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes import labels
from elastic_runtime.platform.kubernetes.cluster_spec import ClusterSpec
from elastic_runtime.platform.kubernetes.container import DEFAULT, OURS, STEP, TOKEN, own_container, plain
from elastic_runtime.platform.kubernetes.own_pod import Account, variables_of_it_alone
from elastic_runtime.platform.kubernetes.pods import PORTS, inside
from elastic_runtime.platform.pods import Phase, Pod, PodSpec, Role, pod_name
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.pairs import envs

__all__ = ["CLUSTER_SPEC_KEY", "PORTS", "SPEC_KEY", "Blueprint", "Owner", "owner_of", "pod_of"]

SPEC_KEY, CLUSTER_SPEC_KEY = "job.json", "cluster_spec.py"
RELAUNCHED_BECAUSE = "elasticdl-relaunched-because"
WORKFLOW = "workflows.argoproj.io/workflow"
_MESH = {"sidecar.istio.io/inject": "false"}
"""Pods speak to each other by addresses, and end when they are done; one with a proxy of Istio's does not."""
_OF_MASTERS = (STEP, Role.MASTER.value)
"""Names of the container that a master runs in, as a step of Argo's or KFP's or in a pod of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An object with which others are removed."""

    kind: str
    api_version: str
    name: str
    uid: str

    def reference(self) -> V1OwnerReference:
        """As its dependents name it; it may go before them."""
        return V1OwnerReference(kind=self.kind, api_version=self.api_version, name=self.name, uid=self.uid)


def owner_of(made: Any) -> Owner:
    """A pod, ConfigMap or other core object that the API has returned, as an owner."""
    kind = type(made).__name__.removeprefix("V1")
    return Owner(kind=kind, api_version="v1", name=made.metadata.name, uid=made.metadata.uid)


def workflow_of(pod: V1Pod | None) -> Owner | None:
    """The workflow that a pod is a step of, if it is one."""
    owners = (pod.metadata.owner_references or []) if pod else []
    return next(
        (
            Owner(kind=each.kind, api_version=each.api_version, name=each.name, uid=each.uid)
            for each in owners
            if each.kind == "Workflow"
        ),
        None,
    )


def references_of(pod: V1Pod | None, namespace: str) -> dict[str, V1EnvVarSource]:
    """Variables of a master's pod that come from a Secret or ConfigMap, which pods of `namespace` see, too.

    A step of an engine has containers of the engine's beside the one it runs in. What a field of the pod says
    is true of that pod alone.
    """
    if pod is None or pod.metadata.namespace != namespace:
        return {}
    containers = [each for each in pod.spec.containers if each.name in _OF_MASTERS]
    variables = {each.name: each.value_from for container in containers for each in container.env or []}
    return {
        name: source
        for name, source in variables.items()
        if source is not None and (source.secret_key_ref or source.config_map_key_ref)
    }


def _left_alone(pod: V1Pod) -> V1Pod:
    """A pod whose end nobody undoes: whoever started its container again would hide it from the job."""
    if pod.spec.restart_policy != "Never":
        raise InputError(
            f"the restart policy of {pod.metadata.name} is {pod.spec.restart_policy}",
            where="--cluster_spec",
            remedy="leave it at Never: the job replaces its pods itself",
        )
    return pod


def pod_of(found: V1Pod) -> Pod:
    """The pod as the rest of the program knows it; what has become of it is for others to judge."""
    marks, notes = found.metadata.labels, found.metadata.annotations or {}
    made = found.metadata.creation_timestamp
    return Pod(
        name=found.metadata.name,
        role=Role(marks[labels.ROLE]),
        index=int(marks[labels.INDEX]),
        phase=Phase.PENDING,
        started=made.timestamp() if made else 0.0,
        relaunched_because=notes.get(RELAUNCHED_BECAUSE, ""),
    )


def command_of(pod: V1Pod) -> list[str]:
    """What a pod runs, as it was asked for."""
    return [plain(word) for word in own_container(pod).command]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """The plan of one job's objects; each call makes a new one."""

    spec: JobSpec
    cluster: ClusterSpec = field(default_factory=ClusterSpec)
    workflow: Owner | None = None
    """Whose step the job's master is: the job's pods, and all that is left of it, go when it is deleted."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    references: Mapping[str, V1EnvVarSource] = field(default_factory=dict)
    """Where those of these variables are found that are not to be read in the job's pods."""
    kept_back: Collection[str] = ()
    """Those of these variables that are true of the master's pod alone."""
    account: Account = field(default_factory=Account)
    """The master's own, for a job that names none."""

    @classmethod
    def of(cls, spec: JobSpec, anchor: V1ConfigMap | None = None, *, own: V1Pod | None = None) -> Blueprint:
        """The plan for a job; its cluster spec is the anchor's, if there is an anchor that holds one.

        `own` is the pod of the job's master, where that is who asks.
        """
        for name in envs(spec.envs):
            if name in OURS:
                raise InputError(f"{name} is set by the job itself", where="--envs", remedy="leave it out")
        kept = (anchor.data or {}).get(CLUSTER_SPEC_KEY, "") if anchor else ""
        cluster = ClusterSpec.load(spec, kept)
        return cls(
            spec=spec,
            cluster=cluster,
            workflow=workflow_of(own),
            references=references_of(own, spec.namespace),
            kept_back=variables_of_it_alone(own),
            account=Account.of(own),
        )

    @property
    def name(self) -> str:
        """Of the anchor and the Secret."""
        return labels.anchor_name(self.spec.job_name)

    @property
    def selector(self) -> str:
        """Of the job's pods."""
        return labels.pods_of(self.spec.job_name)

    def anchor(self) -> V1ConfigMap:
        """What a master that knows only the job's name goes on from."""
        data = {SPEC_KEY: self.spec.to_json()}
        if self.cluster.text:
            data[CLUSTER_SPEC_KEY] = self.cluster.text
        metadata = self._metadata(self.name, owner=self.workflow)
        return V1ConfigMap(api_version="v1", kind="ConfigMap", metadata=metadata, data=data)

    def secret(self, token: str, owner: Owner | None = None) -> V1Secret:
        """The token that the job's pods show each other; one that has an owner cannot be changed."""
        metadata = self._metadata(self.name, owner=owner)
        return V1Secret(
            api_version="v1",
            kind="Secret",
            metadata=metadata,
            immutable=True if owner else None,
            string_data={TOKEN: token},
        )

    def master_service(self, owner: Owner | None = None) -> V1Service:
        """Where the job's pods find its master, and its successor."""
        return self._service(Role.MASTER, None, owner)

    def ps_service(self, index: int, owner: Owner | None = None) -> V1Service:
        """Where workers find a parameter server, and its replacement."""
        return self._service(Role.PS, index, owner)

    def master_pod(
        self,
        command: Iterable[str],
        owner: Owner | None = None,
        *,
        variables: Mapping[str, str] | None = None,
        by_hand: bool = False,
    ) -> V1Pod:
        """The pod that makes all others; one applied `by_hand` makes the other objects, too."""
        job = self.spec.job_name
        spec = PodSpec(pod_name(job, Role.MASTER), job, Role.MASTER, 0, tuple(command), env=variables or {})
        return self._pod(spec, {}, owner, first=by_hand)

    def pod(self, spec: PodSpec, owner: Owner | None = None) -> V1Pod:
        """A worker or a parameter server, with those variables of this process that it is to get.

        Of what this process has from a Secret it gets the reference: more may look at pods than at secrets.
        """
        wanted = self.spec.populate_env_names
        own = {
            name: self.references.get(name, value)
            for name, value in self.environ.items()
            if wanted and re.fullmatch(wanted, name) and name not in self.kept_back
        }
        return self._pod(spec, own, owner)

    def _pod(
        self,
        spec: PodSpec,
        populated: Mapping[str, str | V1EnvVarSource],
        owner: Owner | None,
        *,
        first: bool = False,
    ) -> V1Pod:
        metadata = self._metadata(spec.name, spec.role, spec.index, self.workflow or owner)
        if spec.relaunched_because:
            metadata.annotations[RELAUNCHED_BECAUSE] = spec.relaunched_because
        account = self._account()
        made = inside(self.spec, spec, populated, secret=self.name, account=account, first=first)
        if self.workflow is not None:  # so `argo logs` finds it
            metadata.labels[WORKFLOW] = self.workflow.name
            made.containers[0].name = STEP
        metadata.labels |= _MESH
        metadata.annotations |= {**_MESH, DEFAULT: made.containers[0].name}
        pod = V1Pod(api_version="v1", kind="Pod", metadata=metadata, spec=made)
        return _left_alone(self.cluster.with_pod(pod, spec.role))

    def _account(self) -> Account:
        """The one that is named; what the master's images are pulled with would take its own from another."""
        named = self.spec.service_account
        found = self.account if named in ("", self.account.name) else Account(name=named)
        secrets = self.spec.image_pull_secret
        return replace(found, pull_secrets=tuple(secrets.split(","))) if secrets else found

    def _service(self, role: Role, index: int | None, owner: Owner | None) -> V1Service:
        job, place = self.spec.job_name, index or 0
        port = V1ServicePort(name="grpc", port=PORTS[role])
        service = V1Service(
            api_version="v1",
            kind="Service",
            metadata=self._metadata(pod_name(job, role, index), role, place, owner),
            spec=V1ServiceSpec(ports=[port], selector=labels.one(job, role, place)),
        )
        return self.cluster.with_service(service)

    def _metadata(
        self, name: str, role: Role | None = None, index: int = 0, owner: Owner | None = None
    ) -> V1ObjectMeta:
        return V1ObjectMeta(
            name=name,
            namespace=self.spec.namespace,
            labels=labels.labels(self.spec.job_name, role, index),
            annotations={},
            owner_references=[owner.reference()] if owner else None,
        )

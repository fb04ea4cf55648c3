"""The inside of a job's pods: what the options say of them, and what every pod of a job has.

Pods on a node that is lost are given up after seconds instead of minutes, since a job goes on without them.
Workers and parameter servers, which run the user's code, get no access to the API: they run as the account
that the master has, by which a cloud lets them read the data, but without its token.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubernetes.client import (
    V1Container,
    V1ContainerPort,
    V1EnvVarSource,
    V1LocalObjectReference,
    V1PodSpec,
    V1Toleration,
)

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes.container import (
    container_security,
    environment,
    literal,
    pod_security,
    resources,
)
from elastic_runtime.platform.kubernetes.own_pod import Account
from elastic_runtime.platform.kubernetes.volumes import volumes_and_mounts
from elastic_runtime.platform.pods import PodSpec, Role
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.pairs import envs
from elastic_runtime.spec.scheduling import Toleration, parse_node_selector, parse_tolerations

PORTS = {Role.MASTER: 50001, Role.PS: 2222}
GRACE_SECONDS = 30
LOST_NODE_SECONDS = 5
_LOST = tuple(
    Toleration(
        key=f"node.kubernetes.io/{state}", operator="Exists", effect="NoExecute", seconds=LOST_NODE_SECONDS
    )
    for state in ("not-ready", "unreachable")
)


def inside(
    job: JobSpec,
    pod: PodSpec,
    populated: Mapping[str, str | V1EnvVarSource],
    *,
    secret: str,
    account: Account,
    first: bool = False,
) -> V1PodSpec:
    """The specification of a pod; `populated` are variables that it gets from the master's environment.

    The `first` of a job's pods makes the secret, if nobody has.
    """
    volumes, mounts = volumes_and_mounts(job.job_name, job.volumes)
    on_host = any(volume.host_path for volume in job.volumes)
    container = V1Container(
        name=pod.role.value,
        image=_image(job, pod.role),
        image_pull_policy=job.image_pull_policy,
        command=[literal(word) for word in pod.command],
        env=environment({**populated, **envs(job.envs), **pod.env}, secret=secret, first=first),
        ports=_ports(job, pod.role) or None,
        resources=resources(*_amounts(job, pod.role)),
        volume_mounts=mounts,
        security_context=container_security(on_host=on_host),
        termination_message_policy="FallbackToLogsOnError",
    )
    return V1PodSpec(
        containers=[container],
        volumes=volumes,
        restart_policy=job.restart_policy,
        termination_grace_period_seconds=GRACE_SECONDS,
        priority_class_name=_priority(job, pod) or None,
        service_account_name=account.name or None,
        image_pull_secrets=[V1LocalObjectReference(name=name) for name in account.pull_secrets] or None,
        automount_service_account_token=pod.role is Role.MASTER,
        enable_service_links=False,
        node_selector=parse_node_selector(job.node_selector) or None,
        tolerations=[_toleration(each) for each in (*_LOST, *parse_tolerations(job.toleration))],
        security_context=pod_security(on_host=on_host),
    )


def _image(job: JobSpec, role: Role) -> str:
    named = {
        Role.MASTER: (job.image_name, job.worker_image),
        Role.PS: (job.ps_image, job.worker_image, job.image_name),
        Role.WORKER: (job.worker_image, job.image_name),
    }
    for image in filter(None, named[role]):
        return image
    raise InputError("no image is named", where="--image_name", remedy="--image_name=registry/name:tag")


def _amounts(job: JobSpec, role: Role) -> tuple[str, str]:
    """What is requested, and the limit."""
    return {
        Role.MASTER: (job.master_resource_request, job.master_resource_limit),
        Role.PS: (job.ps_resource_request, job.ps_resource_limit),
        Role.WORKER: (job.worker_resource_request, job.worker_resource_limit),
    }[role]


def _priority(job: JobSpec, pod: PodSpec) -> str:
    if pod.role is Role.WORKER:
        return job.worker_priority.priority_of(pod.index, job.num_workers)
    own = job.ps_pod_priority if pod.role is Role.PS else ""  # as the master, it holds what must not be lost
    return own or job.master_pod_priority or job.worker_priority.of_others(job.num_workers)


def _ports(job: JobSpec, role: Role) -> list[V1ContainerPort]:
    ports = [V1ContainerPort(name="grpc", container_port=PORTS[role])] if role in PORTS else []
    if role is Role.MASTER and job.metrics_port:
        ports.append(V1ContainerPort(name="metrics", container_port=job.metrics_port))
    return ports


def _toleration(told: Toleration) -> V1Toleration:
    return V1Toleration(
        key=told.key or None,
        operator=told.operator,
        value=told.value or None,
        effect=told.effect or None,
        toleration_seconds=told.seconds,
    )

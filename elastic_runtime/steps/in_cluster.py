"""A step that is the master of a job on Kubernetes: its own pod takes the place of the master's.

Who submits a job makes its objects first, and a pod for the master; a step finds itself in a pod already,
made by an engine, with a name of the engine's. So it gives its pod the master's labels, by which the job's
service finds it, and takes up the token that an earlier attempt has left. Everything else the master finds
or makes like one that was applied by hand (`elastic_runtime/master/in_cluster.py`); the config map that holds
its journal belongs to this pod, too, and goes with the last of the job's.
"""

from __future__ import annotations

import base64
import logging
import os
import signal
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from elastic_runtime.data import storage
from elastic_runtime.errors import InputError
from elastic_runtime.observe import figures
from elastic_runtime.platform.pods import Role
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.volumes import parse_volumes

if TYPE_CHECKING:
    from elastic_runtime.steps.cluster_pod_lines import ClusterPodLines
    from elastic_runtime.steps.task_settings import TaskSettings

log = logging.getLogger(__name__)

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
OF_THE_POD = Path("/elasticdl")
_KFPS_NAME = "KFP_POD_NAME"
CREDENTIALS = "(AWS|GOOGLE|FSSPEC)_.*"
"""Variables of the step that its workers get, too, so that they can read the data."""
GRACE_SECONDS = 5
"""Without a master there is nobody to whom a pod could hand over its work."""
ADDRESS_SECONDS = 60.0


def is_in_cluster() -> bool:
    """Whether this process runs in a pod of a cluster, and knows who it is there."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and NAMESPACE_FILE.exists()


def options_of_the_pod(values: Mapping[str, object], *, model: str) -> dict[str, object]:
    """What a job on Kubernetes is told by the step's surroundings, unless it is given.

    `model` is the address of the step's output.
    """
    if not is_in_cluster():
        raise InputError(
            "the job's pods are to run on Kubernetes, and this step does not",
            where="image_name",
            remedy="leave it out, and platform with it: the job then runs here",
        )
    from elastic_runtime.platform.kubernetes.objects import PORTS

    job = str(values["job_name"])
    place = OF_THE_POD if os.access(OF_THE_POD, os.W_OK) else Path(tempfile.gettempdir(), "elasticdl")
    found: dict[str, object] = {"run_dir": str(place / "runs" / job), "populate_env_names": CREDENTIALS}
    if "output" not in values:
        found["output"] = _place_of_the_model(str(values.get("volume", "")), job, model)
    own = {
        "platform": "kubernetes",
        "namespace": NAMESPACE_FILE.read_text(encoding="utf-8").strip(),
        "port": PORTS[Role.MASTER],
    }
    return {name: value for name, value in found.items() if name not in values} | own


def settings_of_the_pod() -> TaskSettings | None:
    """What was set on this step's task, as far as its own pod tells; None if KFP has not made that."""
    if _KFPS_NAME not in os.environ or not is_in_cluster():
        return None
    from elastic_runtime.platform.kubernetes.api import Api
    from elastic_runtime.platform.kubernetes.own_pod import settings_of

    api = Api.connect(NAMESPACE_FILE.read_text(encoding="utf-8").strip())
    try:
        own = api.get_pod(_own_name())
    finally:
        api.close()
    return settings_of(own) if own else None


def refuse_what_pods_do_not_see(place: str, volume: str, *, where: str) -> None:
    """An engine may have brought a dataset into this step's own pod, and nowhere else."""
    path = storage.local_path(place)
    mounts = [mounted.mount_path for mounted in parse_volumes(volume)]
    if path is not None and not any(PurePosixPath(path).is_relative_to(mount) for mount in mounts):
        raise InputError(
            f"{path} is in the step's own pod, where the job's other pods do not see it",
            where=where,
            remedy="have the step before write it to a volume that they see, output=/data/..., or to a "
            "store: on Kubeflow Pipelines by no output at all, on Argo by a URI",
        )


def take_the_masters_place(spec: JobSpec) -> None:
    """Make this process's pod the one that the job's service and its other pods mean by its master."""
    from elastic_runtime.platform.kubernetes import labels
    from elastic_runtime.platform.kubernetes.api import Api
    from elastic_runtime.platform.kubernetes.container import TOKEN
    from elastic_runtime.steps.namesake import become_master, ran_out_of_memory

    api = Api.connect(spec.namespace)
    try:
        own = become_master(api, spec.job_name, _own_name())
        address = api.await_address(own.metadata.name, seconds=ADDRESS_SECONDS)
        secret = api.get_secret(labels.anchor_name(spec.job_name))
        for words in ran_out_of_memory(api.list_pods(labels.master_of(spec.job_name)).items):
            log.warning("an earlier master of this job: %s", words)
    finally:
        api.close()
    if secret is not None:
        os.environ["ELASTICDL_TOKEN"] = base64.b64decode(secret.data[TOKEN]).decode()
    os.environ |= {"ELASTICDL_POD": own.metadata.name, "ELASTICDL_POD_IP": address}


def forget_job(spec: JobSpec) -> None:
    """The job's model is where it is wanted: what the step would have gone on from goes."""
    from elastic_runtime.master.in_cluster import forget
    from elastic_runtime.platform.kubernetes.api import Api

    api = Api.connect(spec.namespace)
    try:
        forget(api, spec)
    finally:
        api.close()


def follow_pods(spec: JobSpec) -> ClusterPodLines:
    """What the job's pods say, for the log of this step."""
    from elastic_runtime.platform.kubernetes.api import Api
    from elastic_runtime.steps.cluster_pod_lines import ClusterPodLines

    return ClusterPodLines(Api.connect(spec.namespace), spec.job_name)


def end_unless_continued(spec: JobSpec) -> bool:
    """The step was told to end: the job's pods wait for its next attempt if there is to be one, or go.

    Returns whether there is to be one. A step that was cut off may find that the job has become another's,
    and leaves that alone.
    """
    from elastic_runtime.steps.successor import will_be_run_again

    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # an engine says it more than once
    goes_on = will_be_run_again(spec.namespace)
    if goes_on:
        log.info("the job's pods wait for the next attempt of this step")
    elif other := _other_master(spec):
        log.info("this step will not be run again: the job is that of %s, and is left alone", other)
    else:
        gone = end_pods(spec.job_name)
        log.info("this step will not be run again: %s removed", figures.plural(len(gone), "pod"))
    return goes_on


def leave_nothing_that_nobody_removes(spec: JobSpec) -> None:
    """The job has failed: what is kept of it is for another attempt, or for the exit handler to remove."""
    from elastic_runtime.platform.kubernetes.errors import ApiError
    from elastic_runtime.steps.successor import nobody_comes_after

    if not nobody_comes_after(spec.namespace):
        return
    why = "this run's exit handler has run before, and does not again"
    try:
        gone = end_pods(spec.job_name)
    except ApiError as problem:  # how the job has ended is worth more
        log.warning("%s, and what the job has left, which the step clean_up removes, stays: %s", why, problem)
    else:
        log.info("%s: the job is removed, with %s", why, figures.plural(len(gone), "pod"))


def run_that_has(job: str) -> str:
    """Another run than this step's, if it has a job of that name and goes on with it."""
    from elastic_runtime.platform.kubernetes.api import Api
    from elastic_runtime.steps.namesake import other_run

    api = Api.connect(NAMESPACE_FILE.read_text(encoding="utf-8").strip())
    try:
        return other_run(api, job, _own_name())
    finally:
        api.close()


def end_pods(job: str) -> list[str]:
    """Delete the job's pods, and with the last of them all that belongs to it; their names.

    A pod that was the master's is the engine's, and stays. What was never made is not deleted: the account of
    a stock Kubeflow Pipelines may not.
    """
    from elastic_runtime.platform.kubernetes import labels
    from elastic_runtime.platform.kubernetes.api import Api
    from elastic_runtime.platform.kubernetes.objects import pod_of
    from elastic_runtime.platform.kubernetes.removal import see_off
    from elastic_runtime.steps.namesake import ran_out_of_memory

    api = Api.connect(NAMESPACE_FILE.read_text(encoding="utf-8").strip())
    try:
        found = api.list_pods(labels.pods_of(job)).items
        pods = [pod for pod in found if pod_of(pod).role is not Role.MASTER]
        for words in ran_out_of_memory(pod for pod in found if pod_of(pod).role is Role.MASTER):
            log.warning("a master of the job: %s", words)
        if api.get_config_map(labels.anchor_name(job)) is not None:
            api.delete_config_map(labels.anchor_name(job))
        for pod in pods:
            api.delete_pod(pod.metadata.name, grace=GRACE_SECONDS, uid=pod.metadata.uid)
        see_off(api, pods, grace=GRACE_SECONDS)
    finally:
        api.close()
    return [pod.metadata.name for pod in pods]


def _other_master(spec: JobSpec) -> str:
    """The pod, other than this process's own, that is the job's master; empty if none is."""
    from elastic_runtime.platform.kubernetes.api import Api
    from elastic_runtime.steps.namesake import living_masters

    api = Api.connect(spec.namespace)
    try:
        return next((pod.metadata.name for pod in living_masters(api, spec.job_name, _own_name())), "")
    finally:
        api.close()


def _own_name() -> str:
    """A pod's host name is its own, unless it uses its node's network."""
    return os.environ.get(_KFPS_NAME) or os.environ.get("ARGO_POD_NAME") or socket.gethostname()


def _place_of_the_model(volume: str, job: str, address: str) -> str:
    """Where a worker writes the model and this step finds it."""
    for mounted in parse_volumes(volume):
        if os.access(mounted.mount_path, os.W_OK):
            return f"{mounted.mount_path.rstrip('/')}/elasticdl/{job}/model"
    if storage.local_path(address) is None:
        return address
    raise InputError(
        "there is no place where a worker can write the model and this step can find it",
        where="volume",
        remedy="mount a volume that both see, on the task or by volume=claim_name=c,mount_path=/data",
    )

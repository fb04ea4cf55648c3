"""What became of a pod, read from what the API says of it: where it is in its life, what it waits for, and
why it ended.

The kubelet, the scheduler and the controllers each leave their word in another place. The most telling goes
first: a container killed for memory, then an eviction for what the pod itself has written, then a disruption
from outside (preempted, evicted, node lost), then the exit code, judged as everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from elastic_runtime.platform.exits import Verdict, judge
from elastic_runtime.platform.kubernetes import labels
from elastic_runtime.platform.kubernetes.container import own_container
from elastic_runtime.platform.pods import ExitCause, Phase, Role

DELETED = "deleted"
"""The detail of a pod's end that somebody wanted."""

_DISRUPTIONS = {
    "PreemptionByScheduler": (ExitCause.PREEMPTED, "preempted by a more urgent pod"),
    "EvictionByEvictionAPI": (ExitCause.PREEMPTED, "evicted"),
    "TerminationByKubelet": (ExitCause.PREEMPTED, "ended by its node"),
    "DeletionByTaintManager": (ExitCause.NODE_LOST, "its node is lost or closed to it"),
    "DeletionByPodGC": (ExitCause.NODE_LOST, "its node is gone"),
}
_REASONS = {
    "NodeLost": (ExitCause.NODE_LOST, "its node is lost"),
    "Evicted": (ExitCause.PREEMPTED, "evicted by its node"),
    "Preempting": (ExitCause.PREEMPTED, "preempted by its node"),
    "NodeShutdown": (ExitCause.PREEMPTED, "its node is shut down"),
    "Terminated": (ExitCause.PREEMPTED, "its node is shut down"),
}
_WROTE_TOO_MUCH = re.compile(
    r"exceeded its local ephemeral storage limit|ephemeral local storage usage exceeds the total limit|"
    r"usage of EmptyDir volume .* exceeds the limit",
    re.IGNORECASE,
)
"""Of an eviction: a limit of the pod's own. That the node was low on it is told in other words."""
_NOT_STARTED = {"ContainerCannotRun", "StartError", "CreateContainerError"}
_BAD_IMAGE = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
}
_BAD_POD = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


def phase(pod: Any) -> Phase:
    """Where the pod is in its life; one that is being deleted lives until its container has ended.

    One with a sidecar has ended when its own container has, for a sidecar may run on for ever.
    """
    if pod.status.phase in ("Succeeded", "Failed"):
        return Phase.ENDED
    if len(pod.status.container_statuses or ()) > 1 and _ended_container(pod):
        return Phase.ENDED
    return Phase.RUNNING if any(state.running for state in _states(pod)) else Phase.PENDING


def verdict(pod: Any, last_lines: Sequence[str] = (), *, deleted: bool = False) -> Verdict:
    """Why the pod ended; `deleted`: it is gone, whatever its last state was."""
    container = _ended_container(pod)
    code = container.exit_code if container else None
    if container and container.reason == "OOMKilled":
        return Verdict(ExitCause.OUT_OF_MEMORY, code, f"killed for memory: {_limit(pod)}")
    if found := _own_eviction(pod) or _disruption(pod):
        cause, detail = found
        return Verdict(cause, code, detail)
    if container and container.reason in _NOT_STARTED:
        return Verdict(ExitCause.NEVER_STARTED, code, container.message or container.reason)
    if code is None:
        if deleted or pod.metadata.deletion_timestamp:
            return Verdict(ExitCause.PREEMPTED, None, DELETED)
        return Verdict(ExitCause.PREEMPTED, None, pod.status.message or "gone without a word")
    judged = judge(code, last_lines)
    if not pod.metadata.deletion_timestamp:
        return judged
    if judged.cause is ExitCause.COMPLETED and _is_ps(pod):  # which ends in order whenever it is told to
        return Verdict(ExitCause.DRAINED, code, DELETED)
    told = judged.cause in (ExitCause.PREEMPTED, ExitCause.DRAINED)
    return Verdict(judged.cause, code, DELETED) if told else judged


def waits_for(pod: Any) -> str:
    """What a pod that does not run yet waits for, in plain words; empty if it is merely on its way."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"no node can take it: {condition.message}"
    waiting = _waiting(pod)
    if waiting is None or waiting.reason in (None, "ContainerCreating", "PodInitializing"):
        return ""
    image = own_container(pod).image
    if waiting.reason in _BAD_IMAGE:
        return f"the image {image} cannot be pulled: {waiting.message or waiting.reason}"
    return f"{waiting.reason}: {waiting.message or 'no message'}"


def cannot_be_made(pod: Any) -> bool:
    """Whether the last attempt to make the pod's container failed: a wrong image or a wrong reference."""
    waiting = _waiting(pod)
    return waiting is not None and waiting.reason in _BAD_IMAGE | _BAD_POD


def is_unheard_of(pod: Any) -> bool:
    """Whether the pod was given to a node that has not said a word of it; once it has, it never is again."""
    return bool(pod.spec.node_name) and phase(pod) is Phase.PENDING and pod.status.start_time is None


def is_being_made(pod: Any) -> bool:
    """Whether its node knows of the pod and has not made its container yet, but says nothing against it."""
    return phase(pod) is Phase.PENDING and pod.status.start_time is not None and not waits_for(pod)


def node_is_lost(pod: Any) -> bool:
    """Whether the pod is to go because of its node, and the node is not there to end it.

    The controllers call a pod not ready when its node falls silent, if the node has ever said that it is;
    where the node lives, the container ends.
    """
    if not pod.metadata.deletion_timestamp or _ended_container(pod):
        return False
    conditions = {condition.type: condition for condition in pod.status.conditions or ()}
    target, ready = conditions.get("DisruptionTarget"), conditions.get("Ready")
    by_taint = target is not None and target.reason in ("DeletionByTaintManager", "DeletionByPodGC")
    return by_taint and (ready is None or ready.status != "True")


def _states(pod: Any) -> list[Any]:
    """Of its own container, if anything is told of that yet; of a sidecar nothing counts."""
    statuses = pod.status.container_statuses or ()
    name = own_container(pod).name if len(statuses) > 1 else ""
    return [status.state for status in statuses if status.state and name in ("", status.name)]


def _waiting(pod: Any) -> Any:
    return next((state.waiting for state in _states(pod) if state.waiting), None)


def _ended_container(pod: Any) -> Any:
    return next((state.terminated for state in _states(pod) if state.terminated), None)


def _own_eviction(pod: Any) -> tuple[ExitCause, str] | None:
    message = (pod.status.message or "").strip()
    if pod.status.reason != "Evicted" or not _WROTE_TOO_MUCH.search(message):
        return None
    return ExitCause.ERROR, f"evicted by its node: it wrote more than its limit: {message}"


def _disruption(pod: Any) -> tuple[ExitCause, str] | None:
    for condition in pod.status.conditions or ():
        if condition.type == "DisruptionTarget" and condition.status == "True":
            cause, words = _DISRUPTIONS.get(condition.reason, (ExitCause.PREEMPTED, condition.reason))
            return cause, f"{words}: {condition.message}" if condition.message else words
    if found := _REASONS.get(pod.status.reason or ""):
        cause, words = found
        return cause, f"{words}: {pod.status.message}" if pod.status.message else words
    return None


def _is_ps(pod: Any) -> bool:
    return bool((pod.metadata.labels or {}).get(labels.ROLE) == Role.PS)


def _limit(pod: Any) -> str:
    resources = own_container(pod).resources
    limit = (resources.limits or {}).get("memory") if resources else None
    return f"its limit is {limit}" if limit else "its node had none left"

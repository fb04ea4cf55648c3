"""A pod on a node that has not made its container: when that takes long, and what the node does meanwhile.

A pod's own state is `ContainerCreating` all that time, be it that a large image is pulled or that a volume
cannot be mounted and never will be. Only its events tell these apart, which not everybody may read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from elastic_runtime.platform.kubernetes import state
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.errors import Forbidden

SLOW_SECONDS = 5.0
"""After which whoever follows a job wants to know why its master does not begin."""
_FAILURES = {
    "FailedMount": "a volume cannot be mounted",
    "FailedAttachVolume": "a volume cannot be attached to its node",
    "FailedCreatePodSandBox": "its node cannot make room for it",
}
_VARIES = re.compile(r"[0-9a-f]{6,}|\d+")


class Making:
    """Of one pod's container: to be asked at each of the pod's changes, and again when the time is over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None

    def left(self, pod: Any, now: float) -> float:
        """The seconds after which it takes long; without end if the container is there, or cannot be made."""
        if not state.is_being_made(pod):
            self._since = None
            return math.inf
        if self._since is None:
            self._since = now
        return self._since + self._seconds - now


def what_its_node_does(api: Api, pod: Any) -> str:
    """By the newest event of a pod whose container is being made."""
    try:
        events = api.pod_events(pod.metadata.name)
    except Forbidden:
        events = []
    own = [event for event in events if event.involved_object.uid == pod.metadata.uid]
    return _in_words(sorted(own, key=_moment)[-1:], pod) or not_made(pod)


def not_made(pod: Any) -> str:
    """The same for whoever sees no events."""
    command = f"kubectl describe pod {pod.metadata.name} -n {pod.metadata.namespace}"
    return f"its container is not made yet ({command})"


def gist(words: str) -> str:
    """What stays the same of a message when a node tells it of its next attempt."""
    return _VARIES.sub("", words)


def _in_words(newest: Sequence[Any], pod: Any) -> str:
    for event in newest:
        if event.reason == "Pulling":
            return f"its node pulls the image {pod.spec.containers[0].image}"
        if event.type == "Warning":
            return f"{_FAILURES.get(event.reason, event.reason)}: {event.message}"
    return ""


def _moment(event: Any) -> datetime:
    """An event that is told again counts as new."""
    moment: datetime = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    return moment

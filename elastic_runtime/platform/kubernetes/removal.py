"""Pods that were deleted: waited for, and in the end removed without their node's word.

Only a node tells that its pods have ended, and one that has lost its power tells nothing: their objects would
stay as long as it is away. No more than the objects is removed. A node that is merely slow ends what runs
there as it was told, and one that comes back ends what it does not find any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from elastic_runtime.platform.kubernetes import state
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.errors import StillThere

log = logging.getLogger(__name__)

GONE_SECONDS = 15.0
"""How much longer than its grace a pod that is to go gets; then its object is removed all the same."""
_GRACE_SECONDS = 30


def seconds_to_go(pod: Any, grace: int | None) -> float:
    """How long a pod that was deleted with this grace, or its own, is waited for."""
    own = pod.spec.termination_grace_period_seconds or _GRACE_SECONDS
    return float(own if grace is None else grace) + GONE_SECONDS


def see_off(api: Api, pods: Sequence[Any], *, grace: int | None = None) -> None:
    """Return once all these pods, which have just been deleted, are gone."""
    began = time.monotonic()
    for pod in pods:
        name, uid = pod.metadata.name, pod.metadata.uid
        seconds = 0.0 if state.node_is_lost(pod) else seconds_to_go(pod, grace)
        try:
            api.await_gone(name, uid=uid, seconds=began + seconds - time.monotonic())
        except StillThere:
            log.warning("%s does not go, as if its node were lost: its object is removed", name)
            api.delete_pod(name, grace=0, uid=uid)
            api.await_gone(name, uid=uid, seconds=GONE_SECONDS)

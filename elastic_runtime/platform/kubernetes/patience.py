"""How long a pod may wait for what may never come: a word of its node, or an image that cannot be pulled.

The time begins when such a wait is first seen, and is that of whoever sees it: a node's clock may be another,
and an image that was pulled for minutes before that failed has not been failing for minutes.
"""

from __future__ import annotations

import math
from typing import Any

from elastic_runtime.platform.exits import Verdict
from elastic_runtime.platform.kubernetes import state
from elastic_runtime.platform.pods import ExitCause

IMAGE_SECONDS = 60.0
"""How long an image that cannot be pulled is waited for, and what else keeps a container from being made."""
SILENT_SECONDS = 60.0
"""How long a node may say nothing of a pod that it was given."""


class Patience:
    """With one pod: to be asked at each of its changes, and again when the time that was left is over."""

    def __init__(self) -> None:
        self._expected: ExitCause | None = None
        self._since = 0.0

    def left(self, pod: Any, now: float) -> float:
        """The seconds that the pod may go on waiting as it does; without end if nothing is wrong with it."""
        expected = _end_of_the_wait(pod)
        if expected is not self._expected:
            self._expected, self._since = expected, now
        if expected is None:
            return math.inf
        borne = SILENT_SECONDS if expected is ExitCause.NODE_LOST else IMAGE_SECONDS
        return self._since + borne - now


def given_up(pod: Any) -> Verdict:
    """Judgement on a pod with which no patience is left; its scheduler has known the node alive."""
    if state.is_unheard_of(pod):
        words = f"its node is lost: {pod.spec.node_name} has said nothing of it for {SILENT_SECONDS:g} s"
        return Verdict(ExitCause.NODE_LOST, None, words)
    return Verdict(ExitCause.NEVER_STARTED, None, state.waits_for(pod))


def _end_of_the_wait(pod: Any) -> ExitCause | None:
    if state.is_unheard_of(pod):
        return ExitCause.NODE_LOST
    return ExitCause.NEVER_STARTED if state.cannot_be_made(pod) else None

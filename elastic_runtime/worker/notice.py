"""The word that this worker is to go soon, and what there is still time for.

Whoever ends a pod in order sends SIGTERM and waits, 30 s on Kubernetes, before it kills. A shard that is
given back half trained is trained again from its start, so what can be finished well before is finished.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FINISH_SECONDS = 10.0
"""Then there is as much again for the last reports, and to leave the others in order."""


class Notice:
    """Given by a signal, looked at by the main thread between minibatches."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._deadline: float | None = None

    def give(self) -> None:
        """This worker is to go; said twice: at once."""
        now = self._clock()
        self._deadline = now + FINISH_SECONDS if self._deadline is None else now

    @property
    def given(self) -> bool:
        """Whether it is to go."""
        return self._deadline is not None

    def leaves(self, seconds: float) -> bool:
        """Whether there is time for something that takes so long."""
        return self._deadline is not None and self._clock() + seconds < self._deadline

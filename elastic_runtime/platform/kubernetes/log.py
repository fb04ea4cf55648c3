"""A pod's log to the pod's end, each line once, though the line to the API server may break.

A stream of lines ends with the container that writes them, or because the server or a proxy went away; nobody
tells which. So it is asked for again, until the pod has ended and two looks in a row have told as many lines.
Each look begins at line 0, which is the same line as long as the pod's node has not rotated the log: after
that, a look that had to begin anew tells nothing until there are as many lines again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.errors import NotThere
from elastic_runtime.platform.kubernetes.stream import Stream

AGAIN_SECONDS = 1.0
"""Between two looks: a pod is said to have ended a little after its last line."""


class WholeLog:
    """Its lines, read by one thread; `stop` ends them from any other.

    `ended(seconds)` tells, so many seconds from now or earlier, whether the pod has ended; it may raise
    `NotThere` if the pod is gone, as another of its name may be there. One that is gone after the first look
    has told all that it will; one that is gone before is an error.
    """

    def __init__(self, api: Api, name: str, container: str, ended: Callable[[float], bool]) -> None:
        self._api, self._name, self._container, self._ended = api, name, container, ended
        self._lines: Stream[str] | None = None
        self._told = self._seen = 0
        self._stopped = False

    def __iter__(self) -> Iterator[str]:
        over, before = self._ended(0.0), -1
        yield from self._look(follow=not over)
        with contextlib.suppress(NotThere):
            while not self._stopped and not (over and self._seen == before):
                before = self._seen
                over = over or self._ended(AGAIN_SECONDS)
                yield from self._look(follow=not over)

    def stop(self) -> None:
        """End it, whatever it waits for; the reader finds no more."""
        self._stopped = True
        if self._lines is not None:
            self._lines.stop()

    def _look(self, *, follow: bool) -> Iterator[str]:
        """What the log has beyond the lines that were told."""
        self._seen = 0
        self._lines = self._api.pod_log(self._name, container=self._container, follow=follow)
        if self._stopped:  # there was nothing to stop yet
            self._lines.stop()
        for line in self._lines:
            self._seen += 1
            if self._seen > self._told:
                self._told = self._seen
                yield line

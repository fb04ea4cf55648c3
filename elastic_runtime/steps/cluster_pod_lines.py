"""What is important in the logs of a cluster's pods, for the log of the step that made them.

Each running pod is followed by a thread of its own, from the moment on in which this step began: what an
earlier attempt could say is not said again. A log whose line breaks is taken up again. Who follows nothing
for lack of rights says so once, and the job goes on: the lines are a convenience.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator, Sequence

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe.live_state import PodState
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.container import own_container
from elastic_runtime.platform.kubernetes.errors import Forbidden
from elastic_runtime.platform.pods import Role
from elastic_runtime.steps.pod_lines import Important, of_pod, say

log = logging.getLogger(__name__)

MOST_PODS = 50
"""Of more than these nobody reads the lines in one log, and each is a connection to the API server."""
LAST_SECONDS = 2.0
"""For what a pod has said at its end."""


class ClusterPodLines:
    """Follows pods as they come; `see` is called once a second."""

    def __init__(self, api: Api, job: str) -> None:
        self._api, self._prefix = api, f"elasticdl-{job}-"
        self._began = time.time()
        self._read_until: dict[str, float] = {}
        self._readers: dict[str, threading.Thread] = {}
        self._said: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._may = True

    def see(self, pods: Sequence[PodState]) -> None:
        """Write what has come since; these are the job's pods now."""
        running = [pod.name for pod in pods if pod.state == "running" and pod.role != Role.MASTER]
        for name in running[:MOST_PODS] if self._may else ():
            reader = self._readers.get(name)
            if reader is None or not reader.is_alive():
                self._readers[name] = threading.Thread(target=self._read, args=(name,), daemon=True)
                self._readers[name].start()
        say(self.new())

    def close(self, *, pods_go_on: bool) -> None:
        """Write the last of it, and let go of all pods; those that have ended may finish their sentence."""
        until = time.monotonic() + (0.0 if pods_go_on else LAST_SECONDS)
        for reader in self._readers.values():
            reader.join(max(0.0, until - time.monotonic()))
        self._api.close()
        for reader in self._readers.values():
            reader.join()
        say(self.new())

    def new(self) -> Iterator[str]:
        """What has come since, as `worker-0 | ...`."""
        found: dict[str, list[str]] = {}
        while not self._said.empty():
            pod, line = self._said.get()
            found.setdefault(pod, []).append(line)
        for pod in sorted(found):
            yield from of_pod(pod.removeprefix(self._prefix), found[pod], f"`kubectl logs {pod}`")

    def _read(self, pod: str) -> None:
        since = self._read_until.get(pod, self._began)
        try:
            if (seen := self._api.get_pod(pod)) is None:
                return
            lines = self._api.pod_log(pod, container=own_container(seen).name, follow=True, since=since)
            for line in Important().of(lines):
                self._said.put((pod, line))
        except Forbidden as problem:
            if self._may:
                log.info("what the pods say is not shown here: %s", problem)
            self._may = False
        except ElasticError as problem:  # the pod may have gone; one that still runs is asked again
            log.debug("the log of %s cannot be followed: %s", pod, problem)
        self._read_until[pod] = time.time()

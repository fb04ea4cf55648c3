"""What the API tells of a job's pods, as it happens: one thread that lists them and then watches.

A watch that ends is taken up where it was; if the API has forgotten that place (410), or after a listing for
any other reason, what has vanished meanwhile is told as deleted. So nothing is missed, whatever happens to
the API server in between.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from elastic_runtime.errors import ElasticError
from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.errors import Expired

log = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
"""Between two attempts to reach an API that has been away longer than its client waits by itself."""


class PodFeed:
    """Calls `hear(deleted, pod)` on the loop for each pod there is, and then for every change."""

    def __init__(self, api: Api, selector: str, hear: Callable[[bool, Any], None]) -> None:
        self._api, self._selector, self._hear = api, selector, hear
        self._loop = asyncio.get_running_loop()
        self._listed = asyncio.Event()
        self._there: dict[str, Any] = {}
        self._ended = threading.Event()
        self._watch: Any = None
        self._thread = threading.Thread(target=self._run, name="pods", daemon=True)
        self._thread.start()

    async def listed(self) -> None:
        """Returns once all pods there are have been told."""
        await self._listed.wait()

    async def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._watch is not None:
            self._watch.stop()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        version = ""
        while not self._ended.is_set():
            try:
                version = self._follow(version) if version else self._list()
            except Expired:
                version = ""
            except ElasticError as problem:
                log.warning("the pods of the job cannot be watched: %s", problem)
                self._ended.wait(AGAIN_SECONDS)

    def _list(self) -> str:
        listing = self._api.list_pods(self._selector)
        found = {pod.metadata.name: pod for pod in listing.items}
        for pod in [pod for name, pod in self._there.items() if not _same(pod, found.get(name))]:
            self._tell(True, pod)
        for pod in found.values():
            self._tell(False, pod)
        self._loop.call_soon_threadsafe(self._listed.set)
        return str(listing.metadata.resource_version)

    def _follow(self, version: str) -> str:
        self._watch = self._api.watch_pods(self._selector, version)
        if self._ended.is_set():  # `close` came before there was a watch to stop
            self._watch.stop()
        for kind, pod in self._watch:
            version = pod.metadata.resource_version
            if kind != "BOOKMARK":
                self._tell(kind == "DELETED", pod)
        return version

    def _tell(self, deleted: bool, pod: Any) -> None:
        if deleted:
            self._there.pop(pod.metadata.name, None)
        else:
            self._there[pod.metadata.name] = pod
        if not self._ended.is_set():
            self._loop.call_soon_threadsafe(self._hear, deleted, pod)


def _same(pod: Any, other: Any) -> bool:
    return other is not None and pod.metadata.uid == other.metadata.uid

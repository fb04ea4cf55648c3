"""Tasks that belong to somebody: each is watched, none fails in silence, all end with their owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)


class Tasks:
    """The tasks running beside the master's main one; `failed` hears of any that ends by an error."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run it beside the rest."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._done)

    async def cancel(self) -> None:
        """End all of them."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (problem := task.exception()):
            log.error("the master cannot go on: %s", problem, exc_info=problem)
            self._failed(problem)

"""Where two processes of a bare program find each other: a store of Horovod's kind, and a pair of sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from elastic_runtime.master.rendezvous import Store

ROOT = Path(__file__).parents[3]


class Meeting:
    """A store on a loop of its own, for as long as the `with` lasts."""

    def __enter__(self) -> Self:
        self._loop, self._store = asyncio.new_event_loop(), Store()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._port = asyncio.run_coroutine_threadsafe(self._store.open("127.0.0.1"), self._loop).result(10)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._free = probe.getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._store.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def place(self, rank: int, size: int) -> tuple[str, ...]:
        """The first arguments of a program: rank, size, where the store is, and a free port."""
        return str(rank), str(size), f"127.0.0.1:{self._port}", str(self._free)

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """What the processes run in."""
        return {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2", **more}

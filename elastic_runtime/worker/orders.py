"""Orders from the master on their way to the main thread, which looks at them between minibatches."""

from __future__ import annotations

import collections
import queue
from collections.abc import Iterator

from elastic_runtime.rpc import master_pb2
from elastic_runtime.worker.work import Broken, NoMoreWork, Wake, Work

Inbox = queue.SimpleQueue[Work | NoMoreWork | Broken | Wake]


class Orders:
    """Filled by the membership's thread and by signals, emptied by the main thread.

    Only `SimpleQueue.put` is used to fill it: a signal handler may interrupt any other kind of lock's holder.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._arriving: queue.SimpleQueue[master_pb2.Order] = queue.SimpleQueue()
        self._seen: collections.deque[master_pb2.Order] = collections.deque()

    def put(self, order: master_pb2.Order) -> None:
        """Add an order and wake the main thread if it waits for work."""
        self._arriving.put(order)
        self._inbox.put(Wake())

    def take(self) -> Iterator[master_pb2.Order]:
        """What has arrived so far, oldest first."""
        while self._seen:
            yield self._seen.popleft()
        while not self._arriving.empty():
            yield self._arriving.get()

    def wait(self, seconds: float) -> bool:
        """Wait for the next order."""
        if not self._seen:
            try:
                self._seen.append(self._arriving.get(timeout=seconds))
            except queue.Empty:
                return False
        return True

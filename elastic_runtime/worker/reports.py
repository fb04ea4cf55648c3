"""Tells the master what became of leases, in order, without making the training wait.

Reports of progress overtake each other (only the newest matters, a few a second); everything else is sent
exactly in the order it happened. While the master is away the reports wait here, and the training goes on.
"""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Callable

import numpy as np

from elastic_runtime.rpc import master_pb2
from elastic_runtime.rpc.membership import MasterAway
from elastic_runtime.rpc.tensors import from_tensor, to_tensor
from elastic_runtime.worker import failure
from elastic_runtime.worker.effort import Effort
from elastic_runtime.worker.link import MasterLink
from elastic_runtime.worker.orders import Inbox
from elastic_runtime.worker.trainers.base import SnapshotLost
from elastic_runtime.worker.work import Broken

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 0.5

States = list[tuple[str, list[np.ndarray], str]]


class Reports:
    """A queue to the master with a thread that empties it."""

    def __init__(self, link: MasterLink, effort: Effort, inbox: Inbox) -> None:
        self._link, self._effort, self._inbox = link, effort, inbox
        self._queue: collections.deque[master_pb2.ReportRequest] = collections.deque()
        self._changed = threading.Condition()
        self._sending = False
        self._closing = False
        self._next_progress = 0.0
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)
        self._thread.start()

    def progress(self, key: master_pb2.LeaseKey, measure: Callable[[], master_pb2.Progress]) -> None:
        """So much of the lease is done; measured and sent at most every `PROGRESS_SECONDS`."""
        now = time.monotonic()
        if now < self._next_progress:
            return
        self._next_progress = now + PROGRESS_SECONDS
        progress = measure()
        with self._changed:
            if self._queue and self._queue[-1].WhichOneof("what") == "progress":
                self._queue.pop()
        self._put(master_pb2.ReportRequest(key=key, progress=progress))

    def finished(self, key: master_pb2.LeaseKey, finished: master_pb2.Finished) -> None:
        """The lease's work is done."""
        self._put(master_pb2.ReportRequest(key=key, finished=finished))

    def failed(self, key: master_pb2.LeaseKey, problem: Exception) -> None:
        """The lease's work cannot be done, or not by this attempt."""
        failed = master_pb2.Failed(
            error=failure.line_of(problem),
            traceback=failure.trace_of(problem),
            fatal=failure.is_final(problem),
            snapshot_lost=isinstance(problem, SnapshotLost),
        )
        self._put(master_pb2.ReportRequest(key=key, failed=failed))

    def given_back(self, key: master_pb2.LeaseKey, *, reason: str, records: int) -> None:
        """The worker leaves before the lease's work is done."""
        self._put(
            master_pb2.ReportRequest(key=key, given_back=master_pb2.GivenBack(reason=reason, records=records))
        )

    def left(self, key: master_pb2.LeaseKey, *, reason: str, records: int, version: int, asked: bool) -> None:
        """The training is over at this version, by a callback if `asked`: the lease goes back."""
        left = master_pb2.GivenBack(reason=reason, records=records, version=version, stop_training=asked)
        self._put(master_pb2.ReportRequest(key=key, given_back=left))

    def flush(self, timeout: float) -> bool:
        """Wait until everything is answered."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._closing or (not self._queue and not self._sending), timeout
            )

    def close(self) -> None:
        """End the thread; what is still queued is not sent."""
        self._give_up()
        self._thread.join(5)

    def _give_up(self) -> None:
        """There is nobody to tell any more: let nobody wait for it."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def _put(self, request: master_pb2.ReportRequest) -> None:
        request.effort.seconds, request.effort.records = self._effort.seconds, self._effort.records
        with self._changed:
            self._queue.append(request)
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._sending = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue or self._closing)
                if self._closing:
                    return None
                request = self._queue.popleft()
                self._sending = True
            try:
                reply = self._link.report(request)
            except MasterAway:
                return self._give_up()
            except Exception as problem:  # noqa: BLE001 - what it trains without a word is trained in vain
                self._inbox.put(Broken(problem))
                return self._give_up()
            if not reply.accepted:
                kind = request.WhichOneof("what")
                log.warning("the master refused %s of shard %d: %s", kind, request.key.shard, reply.reason)


def metric_states(states: States) -> list[master_pb2.MetricState]:
    """Metric states as messages."""
    return [
        master_pb2.MetricState(name=name, rule=rule, variables=[to_tensor(v) for v in variables])
        for name, variables, rule in states
    ]


def from_metric_states(states: list[master_pb2.MetricState]) -> States:
    """The inverse of `metric_states`."""
    return [(s.name, [from_tensor(v) for v in s.variables], s.rule) for s in states]

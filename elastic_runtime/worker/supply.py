"""Keeps the worker in work: leases shards ahead of the training and reads their records in time.

One thread asks the master for work, reads the records, and hands both on: the records to the tf.data
pipeline of their kind, the lease to the main thread's inbox. It runs at most `ahead` leases in front, so a
lost worker holds little. A shard that cannot be read where this worker runs is reported, so that another may
try; a worker that can read nothing for a while ends, and its place is taken by one elsewhere.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from elastic_runtime.rpc import master_pb2
from elastic_runtime.rpc.membership import MasterAway
from elastic_runtime.worker import failure
from elastic_runtime.worker.link import MasterLink
from elastic_runtime.worker.orders import Inbox
from elastic_runtime.worker.reports import Reports
from elastic_runtime.worker.work import Broken, NoMoreWork, Work

log = logging.getLogger(__name__)

AHEAD = 3
LONG_POLL_SECONDS = 10.0
UNREAD_PAUSES = (5.0, 10.0)
"""After reads that a disk or a store refused; so many in a row are borne, one more is the worker's end."""

Deliver = Callable[[int, master_pb2.LeaseReply], int]


class ShardSupply:
    """A thread between the master's leases and the worker's inbox.

    `deliver(number, reply)` reads the records of a lease, puts them where the main thread will look for
    them, and returns how many there are.
    """

    def __init__(
        self,
        link: MasterLink,
        inbox: Inbox,
        reports: Reports,
        deliver: Deliver,
    ) -> None:
        self._link, self._inbox, self._reports, self._deliver = link, inbox, reports, deliver
        self._slots = threading.Semaphore(AHEAD)
        self._era = 0
        self._era_changed = threading.Condition()
        self._stopping = False
        self._number = self._unread = 0
        self._thread = threading.Thread(target=self._run, name="shard-supply", daemon=True)

    def start(self, era: int) -> None:
        """Begin asking for work of this era."""
        self._era = era
        self._thread.start()

    def enter(self, era: int) -> None:
        """The model went on to another era: ask for leases of that one."""
        with self._era_changed:
            self._era = era
            self._era_changed.notify_all()

    @property
    def number(self) -> int:
        """Of the newest piece of work, which may still be on its way to the inbox."""
        return self._number

    def finished_one(self) -> None:
        """The main thread is done with a piece of work: one more may be leased."""
        self._slots.release()

    def stop(self) -> None:
        """Ask for no more; what is under way may still arrive. The link's `close` ends a call that waits."""
        with self._era_changed:
            self._stopping = True
            self._era_changed.notify_all()
        self._slots.release()

    def join(self, timeout: float) -> None:
        """Wait for the thread's end."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while self._wait_for_slot():
                if not self._lease_one():
                    self._inbox.put(NoMoreWork())
                    return
        except MasterAway:
            log.debug("shard supply ends: this process is ending")
        except Exception as problem:  # noqa: BLE001 - the main thread must not wait for ever for what will not come
            self._inbox.put(Broken(problem))

    def _wait_for_slot(self) -> bool:
        self._slots.acquire()
        return not self._stopping

    def _lease_one(self) -> bool:
        """Put one lease into the inbox; false when there will be no more."""
        while not self._stopping:
            era = self._era
            reply = self._link.lease(era=era, serial=self._number + 1, wait_seconds=LONG_POLL_SECONDS)
            match reply.answer:
                case master_pb2.LeaseReply.GRANTED:
                    self._number += 1
                    if self._hand_on(self._number, reply):
                        return True
                case master_pb2.LeaseReply.END:
                    return False
                case master_pb2.LeaseReply.REJOIN:
                    self._await_other_era(era)
        return True

    def _hand_on(self, number: int, reply: master_pb2.LeaseReply) -> bool:
        try:
            records = self._deliver(number, reply)
        except Exception as problem:  # noqa: BLE001 - a user's reader may raise anything
            self._reports.failed(reply.key, problem)
            if failure.is_of_storage(problem):
                self._bear(problem)
            return False
        self._unread = 0
        self._inbox.put(Work(number=number, reply=reply, records=records))
        return True

    def _bear(self, problem: Exception) -> None:
        """Give the storage time, and others that may read it the work."""
        if self._unread == len(UNREAD_PAUSES):
            raise problem
        pause = UNREAD_PAUSES[self._unread]
        self._unread += 1
        log.warning("%s: asking for work again in %g s", failure.line_of(problem), pause)
        with self._era_changed:
            self._era_changed.wait_for(lambda: self._stopping, pause)

    def _await_other_era(self, era: int) -> None:
        with self._era_changed:
            self._era_changed.wait_for(lambda: self._era != era or self._stopping, timeout=1.0)

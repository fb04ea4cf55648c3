"""One worker's life: join the master, build the model, take work until there is none, leave.

The main thread is the only one that touches TensorFlow and the model. It takes `Work` from an inbox that
the shard supply fills, and obeys its orders between minibatches: a drain, a new era of the model, a save.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import uuid
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from elastic_runtime.errors import ElasticError
from elastic_runtime.platform.pods import EXIT_DRAINED
from elastic_runtime.ps.client import PSUnavailable
from elastic_runtime.rpc import master_pb2
from elastic_runtime.rpc.membership import MasterAway, Membership
from elastic_runtime.worker import failure
from elastic_runtime.worker.bench import MODEL_PAUSE_SECONDS, Bench
from elastic_runtime.worker.effort import Effort
from elastic_runtime.worker.hand import Hand
from elastic_runtime.worker.interrupts import Draining, Enough, EraEnded, Released, WorkOver
from elastic_runtime.worker.keeper import Keeper
from elastic_runtime.worker.link import MasterLink
from elastic_runtime.worker.notice import Notice
from elastic_runtime.worker.orders import Inbox, Orders
from elastic_runtime.worker.reports import Reports
from elastic_runtime.worker.supply import ShardSupply
from elastic_runtime.worker.work import Broken, NoMoreWork, Wake, Work

if TYPE_CHECKING:
    from elastic_runtime.worker.allreduce.company import Company
    from elastic_runtime.worker.compute import Compute

log = logging.getLogger(__name__)

FLUSH_SECONDS = 10.0
IDLE_SECONDS = 0.1
"""While no member of its world has records, a worker looks so often whether one has got some."""


class Worker:
    """Wires the worker's threads together and runs its main loop."""

    def __init__(self, *, name: str, index: int, master: str, token: str, orphan_timeout: float) -> None:
        self._name, self._index = name, index
        self._incarnation = uuid.uuid4().hex
        self._inbox: Inbox = queue.SimpleQueue()
        self._orders = Orders(self._inbox)
        self._compute: Compute | None = None
        self._bench: Bench | None = None
        self._company: Company | None = None  # of those that hold the model with this worker (AllReduce)
        self._topology: master_pb2.Topology | None = None
        self._era = 0
        self._membership = Membership(
            master,
            self._describe,
            self._hear,
            orphan_timeout=orphan_timeout,
            on_orphaned=lambda: self._hear(master_pb2.Order(drain=master_pb2.DrainOrder(reason="orphaned"))),
            token=token,
        )
        self._link = MasterLink(self._membership, worker=name, incarnation=self._incarnation)
        self._effort = Effort()
        self._reports = Reports(self._link, self._effort, self._inbox)
        self._supply = ShardSupply(self._link, self._inbox, self._reports, self._deliver)
        self._hand = Hand(self._inbox, self._reports, self._supply)
        self._notice = Notice()
        self._starting = True  # the main thread makes the model and does not look at its orders

    def run(self, build: Callable[[str, str], Compute]) -> int:
        """Live; `build(specification, incarnation)` makes the computing half. Returns the exit code."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self._membership.start()
        try:
            self._compute = build(self._link.settings(), self._incarnation)
            self._company = self._accompany(self._compute)
            self._bench = self._set_up(self._compute, self._company)
            self._starting = False
            self._settle()
            self._supply.start(self._era)
            self._work()
            self._part()
            return self._leave("completed", 0)
        except Draining as order:
            return self._drain(str(order))
        except WorkOver:
            return self._leave("completed", 0)
        except MasterAway:
            log.warning("the master is gone: this worker ends")
            return EXIT_DRAINED  # no fault of its own
        except Exception as problem:  # noqa: BLE001 - whatever it is, the master is told
            return self._leave_failed(problem)
        finally:
            self._close()

    def _accompany(self, compute: Compute) -> Company | None:
        if compute.together is None:
            return None
        from elastic_runtime.worker.allreduce.company import Company

        return Company(compute.together, self._link, obey=self._obey, show_present=compute.show_present)

    def _set_up(self, compute: Compute, company: Company | None) -> Bench:
        return Bench(
            compute,
            company,
            hand=self._hand,
            effort=self._effort,
            reports=self._reports,
            orders=self._orders,
            notice=self._notice,
            obey=self._obey,
        )

    def _work(self) -> None:
        while True:
            try:
                self._obey()
                item = self._next()
                match item:
                    case NoMoreWork():
                        return
                    case Broken(problem):
                        raise problem
                    case Work():
                        self._working.do(item, self._era)
                    case Wake():
                        pass
            except EraEnded:
                self._settle()
            except Released as order:
                self._computing.forget_delivered()
                self._hand.hand_back_all(str(order))
            except Enough as reason:
                self._working.leave_training(str(reason))

    def _next(self) -> Work | NoMoreWork | Broken | Wake:
        """What is next in the inbox; a worker that is waited for by others takes part without records."""
        while self._company is not None and self._inbox.empty():
            if not self._company.idle(self._computing.idle):
                with contextlib.suppress(queue.Empty):
                    return self._inbox.get(timeout=IDLE_SECONDS)
            self._obey()
        return self._inbox.get()

    def _obey(self) -> None:
        for order in self._orders.take():
            self._obey_one(order)
        if self._notice.given:
            self._go_or_finish()

    def _go_or_finish(self) -> None:
        """What was begun is finished first, if there is time for it; the rest goes back at once."""
        seconds = self._effort.seconds_left() if self._hand.is_at_work else None
        if seconds is None or not self._notice.leaves(seconds):
            raise Draining("SIGTERM")
        self._supply.stop()
        self._hand.hand_back_unbegun("SIGTERM")

    def _obey_one(self, order: master_pb2.Order) -> None:
        match order.WhichOneof("order"):
            case "topology":
                self._topology = order.topology
                if order.topology.ready and order.topology.era != self._era:
                    raise EraEnded
            case "call_in" if self._company is not None:
                self._company.call_in(order.call_in)
            case "drain":
                raise Draining(order.drain.reason)
            case "release":
                raise Released(order.release.reason)
            case "enough":
                self._working.enough = order.enough.reason
            case "offer_copy":
                self._keeper.offer_copy(order.offer_copy)
            case "save":
                self._keeper.save(order.save, self._era)
            case "snapshot" if self._company is not None:
                self._company.want_snapshot()
            case "snapshot":
                self._keeper.snapshot(self._era)
            case "drop_snapshot":
                self._keeper.drop_snapshot(order.drop_snapshot)

    def _settle(self) -> None:
        """Wait for a model that is ready, and begin its era: leases of the older one are void."""
        self._hand.hand_back("the model went back")
        self._working.enough = ""
        if self._company is not None:
            self._computing.go_back()
            self._company.enter()
            self._era = self._company.era
            self._supply.enter(self._era)
            return
        told = ""
        while missing := self._enter():
            if missing != told:
                log.info("waiting for the model: %s", missing)
                told = missing
            self._orders.wait(MODEL_PAUSE_SECONDS)
            with contextlib.suppress(EraEnded, Released):  # nothing is in hand
                self._obey()
        self._supply.enter(self._era)

    def _enter(self) -> str:
        """Enter the model's present era, or tell what it waits for."""
        topology = self._topology
        if topology is None or not topology.ready:
            return "its holders are not all there" if topology and topology.era else "it has not begun yet"
        try:
            self._computing.enter(topology)
        except PSUnavailable as problem:
            return str(problem)
        self._era = topology.era
        return ""

    def _drain(self, reason: str) -> int:
        """Give back what is in hand, and go."""
        log.info("draining: %s", reason)
        self._supply.stop()
        self._part()
        self._hand.hand_back_all(reason)
        return self._leave("drained", EXIT_DRAINED)

    def _part(self) -> None:
        """Leave the others in order."""
        if self._company is not None:
            self._company.part()

    def _leave(self, reason: str, code: int) -> int:
        self._reports.flush(FLUSH_SECONDS)
        if self._compute is not None:
            self._compute.finish()
        self._link.leave(reason)
        log.info("leaving: %s", reason)
        return code

    def _leave_failed(self, problem: Exception) -> int:
        if not isinstance(problem, ElasticError | MemoryError):
            log.error("this worker cannot go on", exc_info=problem)
        end = failure.end_by(problem)
        log.error("%s", end.error)
        self._reports.flush(1.0)
        self._link.leave("error", error=end.error, traceback=end.trace, fatal=end.fatal)
        return end.code

    def _close(self) -> None:
        self._supply.stop()
        self._membership.close()
        self._supply.join(5)
        self._reports.close()
        if self._company is not None:
            self._company.close()
        if self._compute is not None:
            self._compute.close()

    def _on_sigterm(self, _signal: int, _frame: FrameType | None) -> None:
        if self._starting:
            self._starting = False
            raise Draining("SIGTERM")
        self._notice.give()
        self._inbox.put(Wake())

    def _hear(self, order: master_pb2.Order) -> None:
        """Have the main thread obey; if it waits for a part of the model that is no more, end that."""
        if order.HasField("drain") and self._starting:
            os.kill(os.getpid(), signal.SIGTERM)  # the main thread is deep in imports
        if order.HasField("call_in") and self._company is not None:
            self._company.hear(order.call_in)
        if order.HasField("offer_copy") and self._compute is not None and self._compute.copier is not None:
            self._compute.copier.abandon()
        self._orders.put(order)

    def _describe(self) -> master_pb2.Member:
        copier = self._compute.copier if self._compute else None
        return master_pb2.Member(
            role=master_pb2.ROLE_WORKER,
            name=self._name,
            index=self._index,
            incarnation=self._incarnation,
            pid=os.getpid(),
            state="ready" if self._era else "fresh",
            version=copier.copy_version if copier else -1,
            era=self._era,
            world=self._company.world if self._company else 0,
            rank=self._company.rank if self._company else 0,
        )

    @property
    def _keeper(self) -> Keeper:
        return Keeper(self._computing, self._link)

    @property
    def _working(self) -> Bench:
        assert self._bench is not None
        return self._bench

    def _deliver(self, number: int, reply: master_pb2.LeaseReply) -> int:
        return self._computing.deliver(number, reply)

    @property
    def _computing(self) -> Compute:
        assert self._compute is not None
        return self._compute

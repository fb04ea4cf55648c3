"""One worker's life: join the master, build the model, take work until there is none, leave.

The main thread is the only one that touches TensorFlow and the model. It takes `Work` from an inbox that
the shard supply fills, and obeys its orders between minibatches: a drain, a new era of the model, a save.
What may come from the user's code fails the shard, loudly; the worker itself lives on and takes the next.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import queue
import signal
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from elastic_runtime.errors import ElasticError, Unavailable
from elastic_runtime.platform.pods import EXIT_DRAINED, EXIT_OUT_OF_MEMORY
from elastic_runtime.ps.client import PSUnavailable
from elastic_runtime.rpc import master_pb2
from elastic_runtime.rpc.membership import MasterAway, Membership
from elastic_runtime.worker.effort import Effort
from elastic_runtime.worker.hand import Hand
from elastic_runtime.worker.interrupts import Draining, Enough, EraEnded, Released, WorkOver
from elastic_runtime.worker.link import MasterLink
from elastic_runtime.worker.notice import Notice
from elastic_runtime.worker.orders import Inbox, Orders
from elastic_runtime.worker.reports import Reports
from elastic_runtime.worker.supply import ShardSupply
from elastic_runtime.worker.work import Broken, NoMoreWork, Wake, Work

if TYPE_CHECKING:
    from elastic_runtime.worker.allreduce.company import Company
    from elastic_runtime.worker.compute import Compute, Step

log = logging.getLogger(__name__)

EXIT_ERROR = 1
FLUSH_SECONDS = 10.0
MODEL_PAUSE_SECONDS = 0.5
IDLE_SECONDS = 0.1
"""While no member of its world has records, a worker looks so often whether one has got some."""
_MAIN = (master_pb2.TRAINING, master_pb2.PREDICTION)
"""What a job is about, and its effort is measured by."""
NO_MEMORY = ("failed to map segment", "Cannot allocate memory", "bad_alloc", "ResourceExhaustedError")
"""How libraries, the kernel, C++ and TensorFlow say it; none of them by a MemoryError."""


class Worker:
    """Wires the worker's threads together and runs its main loop."""

    def __init__(self, *, name: str, index: int, master: str, token: str, orphan_timeout: float) -> None:
        self._name, self._index = name, index
        self._incarnation = uuid.uuid4().hex
        self._inbox: Inbox = queue.SimpleQueue()
        self._orders = Orders(self._inbox)
        self._compute: Compute | None = None
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
        self._reports = Reports(self._link, self._effort)
        self._supply = ShardSupply(self._link, self._inbox, self._reports, self._deliver)
        self._hand = Hand(self._inbox, self._reports, self._supply)
        self._notice = Notice()
        self._enough = ""  # why no more training is wanted
        self._starting = True  # the main thread makes the model and does not look at its orders

    def run(self, build: Callable[[str, str], Compute]) -> int:
        """Live; `build(specification, incarnation)` makes the computing half. Returns the exit code."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self._membership.start()
        try:
            self._compute = build(self._link.settings(), self._incarnation)
            self._company = self._accompany(self._compute)
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
            return EXIT_ERROR
        except MemoryError as problem:
            return self._leave_failed(f"out of memory: {problem}", EXIT_OUT_OF_MEMORY, fatal=False)
        except ElasticError as problem:
            final = not isinstance(problem, Unavailable)
            return self._leave_failed(str(problem), EXIT_ERROR, fatal=final, trace=_trace_of(problem))
        except Exception as problem:
            log.exception("this worker cannot go on")
            error = f"{type(problem).__name__}: {problem}"
            if any(sign in error for sign in NO_MEMORY):
                return self._leave_failed(f"out of memory: {error}", EXIT_OUT_OF_MEMORY, fatal=False)
            return self._leave_failed(error, EXIT_ERROR, fatal=False, trace=_trace_of(problem))
        finally:
            self._close()

    def _accompany(self, compute: Compute) -> Company | None:
        if compute.together is None:
            return None
        from elastic_runtime.worker.allreduce.company import Company

        return Company(compute.together, self._link, obey=self._obey, show_present=compute.show_present)

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
                        self._do(item)
                    case Wake():
                        pass
            except EraEnded:
                self._settle()
            except Released as order:
                self._computing.forget_delivered()
                self._hand.hand_back_all(str(order))
            except Enough as reason:
                self._leave_training(str(reason))

    def _next(self) -> Work | NoMoreWork | Broken | Wake:
        """What is next in the inbox; a worker that is waited for by others takes part without records."""
        while self._company is not None and self._inbox.empty():
            if not self._company.idle(self._computing.idle):
                with contextlib.suppress(queue.Empty):
                    return self._inbox.get(timeout=IDLE_SECONDS)
            self._obey()
        return self._inbox.get()

    def _do(self, work: Work) -> None:
        """Carry out one piece of work and report it; the user's errors fail the shard, not the worker."""
        if not self._hand.take(work, self._era):
            return
        self._effort.begin(work.records)
        try:
            finished = self._computing.perform(work, self._step)
        except (EraEnded, Released, Enough, WorkOver, MasterAway, MemoryError):
            raise
        except Exception as problem:  # noqa: BLE001 - whatever the user's code raises is reported
            error = (
                str(problem) if isinstance(problem, ElasticError) else f"{type(problem).__name__}: {problem}"
            )
            self._reports.failed(work.key, error=error, trace=_trace_of(problem), fatal=_is_final(problem))
            if self._company is not None:
                self._company.stumble()
        else:
            if work.kind in _MAIN:
                self._effort.end()
            self._tell_finished(work, finished)
        self._hand.put_down()

    def _tell_finished(self, work: Work, finished: master_pb2.Finished) -> None:
        if self._company is None or work.kind != master_pb2.TRAINING:
            self._reports.finished(work.key, finished)
            return
        self._hand.wait_to_settle(work)
        self._company.when_settled(lambda: self._hand.settled(work, finished))

    def _step(self, work: Work, step: Step) -> None:
        """Run one minibatch, between orders, through absences of the model's holders."""
        trains = work.kind == master_pb2.TRAINING
        if trains and (reason := self._enough or self._computing.enough()):
            raise Enough(reason)
        self._effort.read()
        attempt = functools.partial(self._attempt, step, counts=work.kind in _MAIN)
        if self._company is not None and trains:
            self._company.run(attempt)
        else:
            if self._company is not None:
                self._company.attend(self._computing.idle)
            self._run(attempt)
        self._reports.progress(work.key, step.measure)

    def _attempt(self, step: Step, *, counts: bool) -> None:
        self._hand.begin()
        if counts:
            self._effort.run(step.run, step.records)
        else:
            step.run()

    def _leave_training(self, reason: str) -> None:
        """Of the model as it is now nothing more will be trained here, whatever was leased for it."""
        log.info("the training is over: %s", reason)
        self._computing.forget_delivered()
        version, asked = self._computing.trainer.version, self._computing.stop_requested
        self._hand.leave(reason, version=version, asked=asked)

    def _run(self, step: Callable[[], None]) -> None:
        told = False
        while True:
            self._obey()
            try:
                step()
                break
            except PSUnavailable as problem:
                if self._notice.given:
                    raise Draining("SIGTERM") from problem
                if not told:
                    log.info("waiting for the model: %s", problem)
                    told = True
                self._orders.wait(MODEL_PAUSE_SECONDS)

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
                self._enough = order.enough.reason
            case "offer_copy":
                self._offer_copy(order.offer_copy)
            case "save":
                self._save(order.save)
            case "snapshot" if self._company is not None:
                self._company.want_snapshot()
            case "snapshot":
                self._computing.show_present()
                self._link.reached(era=self._era, version=self._computing.holder.snapshot())
            case "drop_snapshot":
                self._computing.holder.drop_snapshot(order.drop_snapshot.version)

    def _settle(self) -> None:
        """Wait for a model that is ready, and begin its era: leases of the older one are void."""
        self._hand.hand_back("the model went back")
        self._enough = ""
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
            return "its holders are not all there"
        try:
            self._computing.enter(topology)
        except PSUnavailable as problem:
            return str(problem)
        self._era = topology.era
        return ""

    def _offer_copy(self, order: master_pb2.OfferCopyOrder) -> None:
        """A parameter server lost its part: this worker's copy may be the freshest there is."""
        copier = self._computing.copier
        version = copier.copy_version if copier else -1
        if copier is None or not self._link.offer_copy(era=order.era, version=version):
            return
        try:
            copier.upload(order.ps_addresses, order.era)
        except ElasticError as problem:
            self._link.uploaded(era=order.era, version=version, error=str(problem))
        else:
            self._link.uploaded(era=order.era, version=version)

    def _save(self, order: master_pb2.SaveOrder) -> None:
        error, version = "", order.version
        self._computing.show_present()
        try:
            version = self._computing.holder.save(Path(order.directory), order.version)
        except (ElasticError, OSError) as problem:
            error = str(problem)
            log.warning("the checkpoint of version %d could not be written: %s", order.version, error)
        self._link.saved(era=self._era, version=version, directory=order.directory, error=error)

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

    def _leave_failed(self, error: str, code: int, *, fatal: bool, trace: str = "") -> int:
        log.error("%s", error)
        self._reports.flush(1.0)
        self._link.leave("error", error=error, traceback=trace, fatal=fatal)
        return code

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

    def _deliver(self, number: int, reply: master_pb2.LeaseReply) -> int:
        return self._computing.deliver(number, reply)

    @property
    def _computing(self) -> Compute:
        assert self._compute is not None
        return self._compute


def _is_final(problem: Exception) -> bool:
    """Whether another attempt at the shard is sure to fail likewise (damaged data, a feed without end)."""
    from elastic_runtime.model.user_code import UserCodeError

    return isinstance(problem, ElasticError) and not isinstance(problem, UserCodeError | Unavailable)


def _trace_of(problem: Exception) -> str:
    """The user's part of the traceback, where it is the user's error; none for errors that say it all."""
    told: str | None = getattr(problem, "traceback_text", None)
    if told is not None:
        return told
    return "" if isinstance(problem, ElasticError) else "".join(traceback.format_exception(problem))

"""Where one piece of work is carried out, minibatch by minibatch, and reported.

Orders are obeyed before each minibatch; while the model's holders are away, it waits for them. What may come
from the user's code fails the shard, loudly; the worker itself lives on and takes the next.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from elastic_runtime.ps.client import PSUnavailable
from elastic_runtime.rpc import master_pb2
from elastic_runtime.rpc.membership import MasterAway
from elastic_runtime.worker.effort import Effort
from elastic_runtime.worker.hand import Hand
from elastic_runtime.worker.interrupts import Draining, Enough, EraEnded, Released, WorkOver
from elastic_runtime.worker.notice import Notice
from elastic_runtime.worker.orders import Orders
from elastic_runtime.worker.reports import Reports
from elastic_runtime.worker.work import Work

if TYPE_CHECKING:
    from elastic_runtime.worker.allreduce.company import Company
    from elastic_runtime.worker.compute import Compute, Step

log = logging.getLogger(__name__)

MODEL_PAUSE_SECONDS = 0.5
_MAIN = (master_pb2.TRAINING, master_pb2.PREDICTION)
"""What a job is about, and its effort is measured by."""


class Bench:
    """Belongs to the main thread."""

    def __init__(
        self,
        compute: Compute,
        company: Company | None,
        *,
        hand: Hand,
        effort: Effort,
        reports: Reports,
        orders: Orders,
        notice: Notice,
        obey: Callable[[], None],
    ) -> None:
        self._computing, self._company = compute, company
        self._hand, self._effort, self._reports = hand, effort, reports
        self._orders, self._notice, self._obey = orders, notice, obey
        self.enough = ""
        """Why no more training is wanted."""

    def do(self, work: Work, era: int) -> None:
        """Carry out one piece of work and report it, unless its era is over."""
        if not self._hand.take(work, era):
            return
        self._effort.begin(work.records)
        try:
            finished = self._computing.perform(work, self._step)
        except (EraEnded, Released, Enough, WorkOver, MasterAway, MemoryError):
            raise
        except Exception as problem:  # noqa: BLE001 - whatever the user's code raises is reported
            self._reports.failed(work.key, problem)
            if self._company is not None:
                self._company.stumble()
        else:
            if work.kind in _MAIN:
                self._effort.end()
            self._tell_finished(work, finished)
        self._hand.put_down()

    def leave_training(self, reason: str) -> None:
        """Of the model as it is now nothing more will be trained here, whatever was leased for it."""
        log.info("the training is over: %s", reason)
        self._computing.forget_delivered()
        version, asked = self._computing.trainer.version, self._computing.stop_requested
        self._hand.leave(reason, version=version, asked=asked)

    def _tell_finished(self, work: Work, finished: master_pb2.Finished) -> None:
        if self._company is None or work.kind != master_pb2.TRAINING:
            self._reports.finished(work.key, finished)
            return
        self._hand.wait_to_settle(work)
        self._company.when_settled(lambda: self._hand.settled(work, finished))

    def _step(self, work: Work, step: Step) -> None:
        """Run one minibatch, between orders, through absences of the model's holders."""
        trains = work.kind == master_pb2.TRAINING
        if trains and (reason := self.enough or self._computing.enough()):
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

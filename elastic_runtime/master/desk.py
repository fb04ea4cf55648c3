"""The desk where workers ask for work and report on it: messages in, events for the state machines out.

An answer leaves only when what it rests on is durable. A worker that finds no work waits here, up to its
own limit, and is answered the moment something changes.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from elastic_runtime.master import evaluation, ledger
from elastic_runtime.master.evaluation import MetricState
from elastic_runtime.master.job import EVALUATION, EXPORT, FLEET, WORK_KIND, Job, model_folder
from elastic_runtime.rpc import master_pb2
from elastic_runtime.rpc.tensors import from_tensor, to_tensor

log = logging.getLogger(__name__)

MACHINE = {kind: name for name, kind in WORK_KIND.items()} | {master_pb2.EVALUATION_RESULT: EVALUATION}

Tell = Callable[[str, Any], list[Any]]


class Desk:
    """Answers `Lease` and `Report`."""

    def __init__(self, job: Job, *, tell: Tell, durable: Callable[[], Awaitable[None]]) -> None:
        self._job, self._tell, self._durable = job, tell, durable
        self._news = asyncio.Event()
        self._closed = False
        self._reasons: set[str] = set()  # why work was held back, as far as said

    def close(self) -> None:
        """Nobody is answered until it opens again: the job is being saved, or ends."""
        self._closed = True

    def open(self) -> None:
        """Answer again."""
        self._closed = False
        self.news()

    def news(self) -> None:
        """Something changed: those who wait may ask again."""
        self._news.set()
        self._news = asyncio.Event()

    async def lease(
        self, request: master_pb2.LeaseRequest, *, lives: Callable[[], bool]
    ) -> master_pb2.LeaseReply:
        """Work for this worker, or, after as long as it wants to wait, the word that there is none now.

        `lives` tells at any moment whether the process that asks is still the one of that name.
        """
        give_up = time.monotonic() + request.wait_seconds
        while True:
            news = self._news
            if not lives():
                return master_pb2.LeaseReply(answer=master_pb2.LeaseReply.REJOIN)
            reply = self._ask(request)
            left = give_up - time.monotonic()
            if reply.answer != master_pb2.LeaseReply.WAIT or left <= 0:
                await self._durable()
                return reply
            try:
                await asyncio.wait_for(news.wait(), left)
            except TimeoutError:
                return reply

    def _ask(self, request: master_pb2.LeaseRequest) -> master_pb2.LeaseReply:
        if request.era != self._job.era:
            return master_pb2.LeaseReply(answer=master_pb2.LeaseReply.REJOIN)
        if self._closed:
            return master_pb2.LeaseReply(answer=master_pb2.LeaseReply.WAIT)
        ask = ledger.Ask(request.worker, time.time(), request.serial)
        machines = [] if self._job.is_spare(request.incarnation) else self._job.open_machines()
        for machine in machines:  # an answer that was lost on its way is given again, whoever gave it
            again = self._job.machines[machine].repeated(ask)
            if again is not None:
                return self._granted(machine, again)
        for machine in machines:
            if reason := self._job.held_back(machine):
                self._say_held_back(reason)
                continue
            for effect in self._tell(machine, ask):
                if isinstance(effect, ledger.Granted | evaluation.Granted):
                    return self._granted(machine, effect)
        if self._job.complete:
            return master_pb2.LeaseReply(answer=master_pb2.LeaseReply.END)
        return master_pb2.LeaseReply(answer=master_pb2.LeaseReply.WAIT)

    def _say_held_back(self, reason: str) -> None:
        if reason not in self._reasons:
            self._reasons.add(reason)
            log.info("%s", reason)

    def _granted(self, machine: str, granted: ledger.Granted | evaluation.Granted) -> master_pb2.LeaseReply:
        lease = granted.lease
        key = master_pb2.LeaseKey(
            kind=WORK_KIND[machine],
            epoch=lease.epoch,
            shard=lease.shard,
            attempt=lease.attempt,
            era=self._job.era,
        )
        reply = master_pb2.LeaseReply(answer=master_pb2.LeaseReply.GRANTED, key=key)
        if machine != EXPORT:
            source, start, end = granted.shard
            reply.shard.CopyFrom(master_pb2.Shard(source=source, start=start, end=end))
        if machine == EXPORT:
            reply.output = model_folder(self._job.spec)
        if isinstance(granted, evaluation.Granted):
            reply.version, reply.snapshot = granted.version, granted.snapshot
            if granted.kind is evaluation.Kind.RESULT:
                reply.key.kind = master_pb2.EVALUATION_RESULT
                reply.states.extend(_to_message(state) for state in granted.states)
        return reply

    async def report(
        self, request: master_pb2.ReportRequest, *, accepted: Callable[[], None]
    ) -> master_pb2.ReportReply:
        """Hand a report to the machine it concerns; refused if the lease is not the worker's (any more).

        What follows from it beside is done by `accepted` before anything becomes durable: both or none.
        """
        if request.key.era != self._job.era:
            return master_pb2.ReportReply(
                reason="the model went back to an earlier state: this lease is void"
            )
        machine = MACHINE[request.key.kind]
        if machine not in self._job.machines:
            return master_pb2.ReportReply(reason=f"this job has no {machine}")
        now = time.time()
        effects = self._tell(machine, event_of(request, now))
        refused = [effect.reason for effect in effects if isinstance(effect, ledger.Refused)]
        if not refused:
            self._renew(request.worker, now, but=machine)
            accepted()
        if request.WhichOneof("what") != "progress":
            await self._durable()
        return master_pb2.ReportReply(accepted=not refused, reason=refused[0] if refused else "")

    def _renew(self, worker: str, now: float, *, but: str) -> None:
        """What it holds of other kinds waits for what it is at now."""
        for machine in [name for name in self._job.machines if name not in (FLEET, but)]:
            self._tell(machine, ledger.AtWork(worker, now))


def event_of(request: master_pb2.ReportRequest, now: float) -> Any:
    """The event that a report stands for."""
    worker, key = request.worker, request.key
    lease = ledger.Lease(key.epoch, key.shard, key.attempt)
    match request.WhichOneof("what"):
        case "progress":
            return ledger.Progress(worker, lease, now)
        case "failed" if request.failed.snapshot_lost:
            return evaluation.SnapshotLost(key.epoch)
        case "failed":
            return ledger.Failed(worker, lease, request.failed.error, request.failed.fatal, now)
        case "given_back":
            told = request.given_back
            return ledger.GivenBack(worker, lease, told.records, now, told.version)
    if key.kind == master_pb2.EVALUATION:
        return evaluation.PartDone(worker, lease, tuple(map(_from_message, request.finished.states)), now)
    if key.kind == master_pb2.EVALUATION_RESULT:
        return evaluation.ResultReported(worker, lease, dict(request.finished.metrics), now)
    return ledger.Finished(worker, lease, request.finished.version, now)


def loss_of(request: master_pb2.ReportRequest) -> tuple[int, float | None, float | None]:
    """Version, loss and learning rate that a report on training tells, as far as it does."""
    if request.key.kind != master_pb2.TRAINING:
        return 0, None, None
    if request.WhichOneof("what") == "progress":
        told = request.progress
        return told.version, _known(told.loss), told.learning_rate or None
    if request.WhichOneof("what") == "finished":
        return request.finished.version, _known(request.finished.loss), None
    if request.WhichOneof("what") == "given_back":
        return request.given_back.version, None, None
    return 0, None, None


def _known(loss: float) -> float | None:
    """Workers send NaN for `no loss yet`, and infinity for a loss that is not a number."""
    return None if math.isnan(loss) else loss


def _to_message(state: MetricState) -> master_pb2.MetricState:
    return master_pb2.MetricState(
        name=state.name, rule=state.rule, variables=[to_tensor(variable) for variable in state.variables]
    )


def _from_message(state: master_pb2.MetricState) -> MetricState:
    return MetricState(state.name, tuple(map(from_tensor, state.variables)), state.rule)

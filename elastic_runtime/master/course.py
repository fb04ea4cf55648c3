"""The course of a job: what happens is told to its state machines, and what they decide is done.

`tell` is the one way in, for everybody. It never waits: deeds that take time become tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from elastic_runtime.errors import ElasticError
from elastic_runtime.master import evaluation, fleet, ledger
from elastic_runtime.master.desk import Desk
from elastic_runtime.master.job import EVALUATION, FLEET, TRAINING, Job, Outcome
from elastic_runtime.master.members import Members
from elastic_runtime.master.narrator import Narrator
from elastic_runtime.master.pods import Pods
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.master.versions import Versions
from elastic_runtime.platform.overtaken import Overtaken
from elastic_runtime.rpc import master_pb2

log = logging.getLogger(__name__)

POD_ENDED = "its pod is no more"


class Course:
    """Between the job's decisions and those who carry them out."""

    pods: Pods
    desk: Desk
    versions: Versions
    members: Members

    def __init__(
        self,
        job: Job,
        *,
        narrator: Narrator,
        tasks: Tasks,
        durable: Callable[[], Awaitable[None]],
        finish: Callable[[Outcome], None],
    ) -> None:
        self._job, self._narrator, self._tasks = job, narrator, tasks
        self._durable, self._finish = durable, finish
        self._timer = asyncio.Event()
        self._reasons: set[str] = set()  # why versions were not evaluated, as far as said

    def tell(self, machine: str, event: Any) -> list[Any]:
        """Let a machine take an event and do what follows from it."""
        waited = self._job.fleet.below_minimum
        effects = self._job.tell(machine, event)
        if waited and not self._job.fleet.below_minimum:
            self.desk.news()
        for effect in effects:
            self._narrator.tell(machine, effect)
            self._follow(machine, effect)
        if machine == TRAINING and effects:
            self.versions.senders_changed()
        if effects:
            self._timer.set()
        return effects

    def worker_gone(self, name: str) -> None:
        """A worker is no more: its leases are free again, and if it held the model, that is gone too."""
        self.members.forget(name)
        for machine in [name for name in self._job.machines if name != FLEET]:
            self.tell(machine, ledger.WorkerLost(name))
        self.versions.home.lost(name)
        self.desk.news()

    def end_if_complete(self) -> None:
        """Nothing is left to do: the job has succeeded."""
        if self._job.complete:
            self.desk.news()
            self._finish(Outcome("succeeded"))

    async def keep_time(self) -> None:
        """Tell each machine when a deadline of its own has come."""
        while True:
            self._timer.clear()
            deadlines = [machine.next_deadline() for machine in self._job.machines.values()]
            soonest = min((deadline for deadline in deadlines if deadline is not None), default=None)
            patience = None if soonest is None else max(0.05, soonest - time.time())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._timer.wait(), patience)
            self._tick(time.time())

    def _tick(self, now: float) -> None:
        for name, machine in list(self._job.machines.items()):
            if name == FLEET:
                self.tell(FLEET, fleet.Tick(now))
                continue
            for worker in machine.overdue(now):
                patience = self._job.spec.lease_timeout
                log.warning("%s made no progress for %g s: its work goes to others", worker, patience)
                self.tell(name, ledger.Expire(worker))
                self.members.send(
                    worker, master_pb2.Order(release=master_pb2.ReleaseOrder(reason="no progress"))
                )
                if name == TRAINING:
                    self.versions.home.silent(worker)
            if name == EVALUATION:
                self.tell(name, evaluation.Tick(now))

    def _follow(self, machine: str, effect: Any) -> None:
        match effect:
            case fleet.StartPod():
                self._tasks.spawn(self._start(effect))
            case fleet.StopPod():
                self.pods.carry_out(effect)
            case fleet.WorkerGone(name, _):
                self.members.bury(name, POD_ENDED)
                self.worker_gone(name)
            case fleet.PsLost(index, name):
                self.members.bury(name, POD_ENDED, *self._job.origin.holders[index : index + 1])
                self.versions.home.lost(name)
            case fleet.FailJob(reason):
                self._finish(Outcome("failed", reason))
            case ledger.JobFailed(shard, attempts, error):
                where = f"records {shard.start}-{shard.end} of {shard.source}"
                tries = f" (attempt {attempts})" if attempts > 1 else ""
                self._finish(Outcome("failed", f"{where}: {error}{tries}"))
            case ledger.Stopping(reason):
                self.members.tell_workers(master_pb2.Order(enough=master_pb2.EnoughOrder(reason=reason)))
            case ledger.AllFinished():
                self._machine_finished(machine)
            case ledger.Requeued() | evaluation.EvaluationStarted() | evaluation.ResultWanted():
                self.desk.news()
            case evaluation.EvaluationFinished(version, _):
                self._tasks.spawn(self._say_evaluation())
                self.versions.free(version, "evaluation")
                self.desk.news()
                self.end_if_complete()
            case evaluation.EvaluationSkipped(version, reason):
                self._say_skipped(version, reason)
                self.versions.free(version, "evaluation")
                self._evaluate_if_trained()  # it may have been to stand for the finished model
                self.desk.news()
                self.end_if_complete()
            case evaluation.SnapshotWanted():
                self._tasks.spawn(self.versions.snapshot_to_evaluate())

    def _say_skipped(self, version: int, reason: str) -> None:
        if reason not in self._reasons:
            self._reasons.add(reason)
            log.warning("version %d is not evaluated, nor may be others after it: %s", version, reason)

    async def _start(self, start: fleet.StartPod) -> None:
        """Once a successor would know of the pod, too: else it would end it as a stranger, for another."""
        with contextlib.suppress(Overtaken):  # the job goes on elsewhere
            await self._durable()
            if not self._job.fleet.ending:
                self._narrator.starting(start)
                self.pods.carry_out(start)

    async def _say_evaluation(self) -> None:
        """Once a successor would know of it, too; else both would say it.

        If the write fails, others that wait for it are told; the result is said with the next one.
        """
        with contextlib.suppress(ElasticError):
            await self._durable()
            self._narrator.evaluated()

    def _machine_finished(self, machine: str) -> None:
        if machine == TRAINING:
            self._evaluate_if_trained()
        self.desk.news()
        self.end_if_complete()

    def _evaluate_if_trained(self) -> None:
        """The model stays as it is: its evaluation is due, unless it has been or will be evaluated anyway."""
        training = self._job.machines.get(TRAINING)
        if training is not None and training.finished and self._job.evaluation is not None:
            self.tell(EVALUATION, evaluation.FinalModel(self._job.version))

"""Tells what happens in a job: log lines, and the event stream.

It decides nothing. The master hands it every effect and every pod's change; it puts them in words. The
figures are those of `Standing`.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elastic_runtime.master import evaluation, fleet, ledger
from elastic_runtime.master.home import Origin
from elastic_runtime.master.job import EVALUATION, TRAINING, Job, Outcome, more_memory
from elastic_runtime.master.rendezvous import Formed
from elastic_runtime.master.standing import Display, Standing
from elastic_runtime.observe import events, summary, words
from elastic_runtime.platform.pods import ExitCause, Phase, Pod, Role, pod_name
from elastic_runtime.spec.job import JobSpec, Kind

__all__ = ["Display", "Narrator"]

log = logging.getLogger(__name__)

_MASTERS_END = {"succeeded": ("completed", 0), "failed": ("error", 1), "stopped": ("drained", 130)}


class Narrator:
    """The voice of one job's master."""

    def __init__(self, spec: JobSpec, folder: Path, job: Job, display: Display | None) -> None:
        self._spec, self._folder, self._job = spec, folder, job
        self._master = pod_name(spec.job_name, Role.MASTER)
        self.standing = Standing(spec, folder, job, display)
        self.standing.pids[self._master] = os.getpid()
        self._record, self.sample_for_ever = self.standing.record, self.standing.sample_for_ever
        self._evaluations_said: set[tuple[int, str]] = set()
        self._memory_said: set[Role] = set()
        self.resumed = False

    @property
    def message(self) -> str:
        """What the job waits for."""
        return self.standing.message

    @message.setter
    def message(self, message: str) -> None:
        self.standing.message = message

    def begin(self) -> None:
        """The job begins, or a new master goes on with it."""
        self.standing.serve_metrics()
        self._record_start(resumed=self.resumed)
        self._record(events.PodStarted(time=time.time(), pod=self._master, role=Role.MASTER))
        self._record(events.PodRunning(time=time.time(), pod=self._master, role=Role.MASTER))
        self._recall_evaluations()
        self.standing.begin()
        if self.resumed:
            done = self._job.main.records_done if self._job.main else 0
            log.info("job %s goes on where it was left: %d records done", self._spec.job_name, done)
        if self._job.evaluation is not None:
            log.info("Evaluation service started")
        self.evaluated()

    def _recall_evaluations(self) -> None:
        """What an earlier master has said; where its folder is lost with it, all that it could have said."""
        history, judge = self.standing.history, self._job.evaluation
        if history.last_sample is None and judge is not None:
            for version, metrics in judge.results.items():
                self._record(events.Evaluation(time=time.time(), version=version, metrics=dict(metrics)))
        self._evaluations_said = {_result(event.version, event.metrics) for event in history.evaluations}

    def evaluated(self) -> None:
        """Say each result that has not been said; the journal has it, so nobody will evaluate that again."""
        judge, now = self._job.evaluation, time.time()
        for version, metrics in judge.results.items() if judge else ():
            if _result(version, metrics) not in self._evaluations_said:
                self._evaluations_said.add(_result(version, metrics))
                log.info("Evaluation metrics[v=%d]: %s", version, dict(metrics))
                self._record(events.Evaluation(time=now, version=version, metrics=dict(metrics)))

    def listed(self, machine: str) -> None:
        """The model's own reader told what there is to read."""
        self._record_start(resumed=False)
        self.standing.listed()
        if machine == EVALUATION:
            log.info("Evaluation service started")

    def _record_start(self, *, resumed: bool) -> None:
        main = self._job.main
        self._record(
            events.JobStarted(
                time=time.time(),
                job=self._spec.job_name,
                strategy=self._spec.distribution_strategy,
                epochs=max(0, self._spec.num_epochs) if self._spec.kind is Kind.TRAINING else 0,
                records_total=(main.records_total if main else None) or 0,
                resumed=resumed,
            )
        )

    def pod(self, pod: Pod, adopted: bool) -> None:
        """A pod's new state."""
        now, known = time.time(), self.standing.history.life(pod.name)
        if pod.phase is Phase.ENDED:
            self.standing.pids.pop(pod.name, None)
            assert pod.cause is not None
            if adopted and known is not None and known.ended is not None:
                return  # an earlier master told of it, and did not live until that was in its journal
            log.info("pod %s ended: %s%s", pod.name, pod.cause, f" ({pod.detail})" if pod.detail else "")
            self._record(
                events.PodEnded(
                    time=now,
                    pod=pod.name,
                    role=pod.role,
                    cause=pod.cause,
                    exit_code=pod.exit_code,
                    detail=pod.detail,
                )
            )
            if pod.cause is ExitCause.OUT_OF_MEMORY and pod.role not in self._memory_said:
                self._memory_said.add(pod.role)
                log.warning("%s ran out of memory: %s", pod.name, more_memory(self._spec, pod.role))
            return
        if pod.pid is not None:
            self.standing.pids[pod.name] = pod.pid
        if pod.phase is Phase.RUNNING:
            where = pod.detail if pod.pid is None else f"process {pod.pid}"
            log.info("pod %s %s (%s)", pod.name, "is running already" if adopted else "runs", where)
            if adopted and known is None:
                self._record(
                    events.PodStarted(time=pod.started, pod=pod.name, role=pod.role, index=pod.index)
                )
            self._record(events.PodRunning(time=now, pod=pod.name, role=pod.role, adopted=adopted))
        elif pod.detail:
            log.info("pod %s waits: %s", pod.name, pod.detail)
            if known is None or known.state != "pending" or known.detail != pod.detail:
                self._record(events.PodWaiting(time=now, pod=pod.name, role=pod.role, detail=pod.detail))

    def starting(self, start: fleet.StartPod) -> None:
        """A pod is started; what an earlier master began and did not live to see is the same start."""
        because, life = start.relaunched_because, self.standing.history.life(start.name)
        replaced = f" in place of one that {words.end(because)}" if because else ""
        log.info("starting %s%s", start.name, replaced)
        if life is None or life.state != "pending":
            now, role = time.time(), start.role
            self._record(
                events.PodStarted(time=now, pod=start.name, role=role, index=start.index, because=because)
            )

    def tell(self, machine: str, effect: Any) -> None:
        """What a state machine decided."""
        now = time.time()
        match effect:
            case fleet.GaveUp(name, reason):
                log.warning("%s is not started again: %s", name, reason)
            case fleet.BelowMinimum(running, minimum):
                log.warning("%d workers run, at least %d are wanted: the job waits", running, minimum)
            case fleet.Recovered(running):
                log.info("%d workers run: the job goes on", running)
            case ledger.Requeued(worker, _, shard, again, reason):
                log.info(
                    "records %d-%d of %s go back to the queue: %s (%s)",
                    *shard[1:],
                    shard.source,
                    reason,
                    worker,
                )
                self._record(
                    events.ShardRequeued(
                        time=now,
                        worker=worker,
                        source=shard.source,
                        start=shard.start,
                        end=shard.end,
                        records=again if machine == TRAINING else 0,
                        reason=reason,
                    )
                )
            case ledger.EpochFinished(epoch) if machine == TRAINING:
                records = self._job.machines[TRAINING].shards.records
                of = f" of {self._spec.num_epochs}" if self._spec.num_epochs > 0 else ""
                log.info("epoch %d%s done: %d records", epoch + 1, of, records)
                self._record(events.EpochFinished(time=now, epoch=epoch + 1, records=records))
            case ledger.Stopping(reason):
                log.info("no more work is handed out: %s", reason)
            case ledger.Left(_, shard, begun) if begun:
                log.info("records %d-%d of %s were begun and are left", *shard[1:], shard.source)
            case ledger.AllFinished(reason) if reason and (main := self._job.main):
                of = "" if main.records_total is None else f" of {main.records_total}"
                log.info("the training ends (%s) with %d%s records done", reason, main.records_done, of)
            case evaluation.EvaluationCancelled(version):
                log.info("the evaluation of version %d is void: the model went back", version)

    def joined(self, worker: str, *, again: bool) -> None:
        """A worker registered."""
        log.info("worker %s %s", worker, "is back" if again else "joined")
        if not again:
            self.standing.joined(worker)
        self._record(events.WorkerJoined(time=time.time(), worker=worker))

    def checkpoint(self, version: int, seconds: float, size: int) -> None:
        """A checkpoint is complete."""
        log.info("checkpoint version-%d saved: %d bytes in %.2f s", version, size, seconds)
        self._record(events.CheckpointSaved(time=time.time(), version=version, seconds=seconds, bytes=size))

    def era(self, origin: Origin, again: int, *, is_first: bool) -> None:
        """A new era of the model began."""
        if origin.how == "checkpoint":
            log.info(
                "the model is that of %s: version %d, %d records are trained again",
                origin.checkpoint,
                origin.version,
                again,
            )
        elif not is_first:
            copy, beginning = "the workers' freshest copy", "its beginning (there was no copy left)"
            what = copy if origin.how == "copy" else beginning
            log.warning(
                "the model is back at %s: version %d, %d records are trained again",
                what,
                origin.version,
                again,
            )
        if not is_first or origin.how != "fresh":
            made_of = "a worker's copy" if origin.how == "copy" else "its beginning"
            source, now = Path(origin.checkpoint).name or made_of, time.time()
            self._record(
                events.ModelRestored(time=now, version=origin.version, records_again=again, source=source)
            )

    def world(self, formed: Formed, before: Sequence[str]) -> None:
        """Workers train together in a new world."""
        gone = [name for name in before if name not in formed.members]
        come = [name for name in formed.members if name not in before]
        short = self._short
        changes = [f"without {short(gone)}"] * bool(gone) + [f"with {short(come)}"] * bool(come)
        change = " and ".join(changes) if before else ""
        size = len(formed.members)
        world = events.WorldFormed(time=time.time(), world=formed.world, workers=size, change=change)
        log.info("%s", words.describe(world))
        self._record(world)
        for name in formed.left_out:
            log.warning("%s has not come in time: the others go on without it", name)

    def _short(self, pods: Sequence[str]) -> str:
        """`worker-1, worker-2`: this job's pods, without what all their names have in common."""
        return ", ".join(name.removeprefix(f"elasticdl-{self._spec.job_name}-") for name in pods)

    def exported(self, output: str) -> None:
        """The finished model was written."""
        log.info("the finished model was written to %s", output)

    def end(self, outcome: Outcome) -> None:
        """The job is over: the last figures, the report, the verdict."""
        self.evaluated()
        if self._job.evaluation is not None:
            log.info("Evaluation service stopped")
        self.standing.sample()
        self.standing.outcome = outcome.status
        now, (cause, code) = time.time(), _MASTERS_END[outcome.status]
        self._record(
            events.PodEnded(time=now, pod=self._master, role=Role.MASTER, cause=cause, exit_code=code)
        )
        self._record(events.JobEnded(time=now, status=outcome.status, error=outcome.error))
        self.standing.pids.clear()
        self.standing.write_status()
        self.standing.write_report()
        self.standing.close()
        if self._job.exported:
            log.info("the model is in %s", self._job.exported)
        log.info("the report is %s", self._folder / "report.html")
        self._verdict()

    def aside(self, reason: str) -> None:
        """This master goes, the job does not; if no other comes, that was all: so it is written down."""
        self.standing.message, self.standing.left = reason, True
        self.standing.write_report()
        self.standing.sample()

    def over(self, outcome: Outcome) -> None:
        """An earlier master has ended the job; if it died before it had said so, that is done now."""
        if self.standing.history.ended is None:
            self.begin()
            self.end(outcome)
        else:
            self._verdict()

    def _verdict(self) -> None:
        log.info("%s", summary.verdict(self.standing.summary()))


def _result(version: int, metrics: Mapping[str, float]) -> tuple[int, str]:
    """A result to look up; a version may be evaluated again after the model went back."""
    return version, repr(dict(metrics))

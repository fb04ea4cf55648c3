"""Tells what happens in a job: log lines, the event stream, status for the command line, summary and
report.

It decides nothing. The master hands it every effect and every pod's change; it puts them in words and
figures.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from elastic_runtime.errors import ElasticError
from elastic_runtime.master import evaluation, fleet, ledger
from elastic_runtime.master.home import Origin
from elastic_runtime.master.job import EVALUATION, TRAINING, Job, Outcome, more_memory
from elastic_runtime.master.rendezvous import Formed
from elastic_runtime.master.status import describe
from elastic_runtime.observe import events, summary, words
from elastic_runtime.observe.events import Event
from elastic_runtime.observe.files import write_atomically
from elastic_runtime.observe.live_state import LiveState, live_state
from elastic_runtime.observe.metrics import Metrics, MetricsPage
from elastic_runtime.observe.progress import Progress
from elastic_runtime.observe.recorder import Recorder
from elastic_runtime.observe.report import Fact, render
from elastic_runtime.platform.pods import ExitCause, Phase, Pod, Role, pod_name
from elastic_runtime.rpc import master_pb2
from elastic_runtime.spec.flags import flags
from elastic_runtime.spec.job import JobSpec, Kind

log = logging.getLogger(__name__)

Display = Callable[[LiveState], None]

SAMPLE_SECONDS = 1.0
LINE_SECONDS = 10.0
REPORT_SECONDS = 30.0
_MASTERS_END = {"succeeded": ("completed", 0), "failed": ("error", 1), "stopped": ("drained", 130)}


class Narrator:
    """The voice of one job's master."""

    def __init__(self, spec: JobSpec, folder: Path, job: Job, display: Display | None) -> None:
        self._spec, self._folder, self._job, self._display = spec, folder, job, display
        self._recorder = Recorder(folder, listeners=[])
        self._metrics = Metrics()
        self._page: MetricsPage | None = None
        self._progress = Progress(started=time.time(), total=0)
        self._efforts: dict[str, tuple[float, int]] = {}  # seconds and records that workers told of
        self._loss: float | None = None
        self._rate: float | None = None
        self._status = "running"
        self._next_line = self._next_report = 0.0
        self._master = pod_name(spec.job_name, Role.MASTER)
        self.pids: dict[str, int] = {self._master: os.getpid()}
        self._evaluations_said: set[tuple[int, str]] = set()
        self._memory_said: set[Role] = set()
        self.resumed = self._left = False
        self.message = ""  # what the job waits for

    def begin(self) -> None:
        """The job begins, or a new master goes on with it."""
        if self._spec.metrics_port:
            self._page = MetricsPage(self._metrics, port=self._spec.metrics_port)
            log.info("metrics are served on port %d", self._page.port)
        self._record_start(resumed=self.resumed)
        self._record(events.PodStarted(time=time.time(), pod=self._master, role=Role.MASTER))
        self._record(events.PodRunning(time=time.time(), pod=self._master, role=Role.MASTER))
        self._recall_evaluations()
        history = self._recorder.history
        last = history.last_sample
        self._progress = Progress(
            started=history.begin,
            total=history.records_total,
            training_seconds=last.training_seconds if last else 0.0,
        )
        if self.resumed:
            done = self._job.main.records_done if self._job.main else 0
            log.info("job %s goes on where it was left: %d records done", self._spec.job_name, done)
        if self._job.evaluation is not None:
            log.info("Evaluation service started")
        self.evaluated()

    def _recall_evaluations(self) -> None:
        """What an earlier master has said; where its folder is lost with it, all that it could have said."""
        history, judge = self._recorder.history, self._job.evaluation
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
        self._progress.total = self._recorder.history.records_total
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
        now, known = time.time(), self._recorder.history.life(pod.name)
        if pod.phase is Phase.ENDED:
            self.pids.pop(pod.name, None)
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
            self.pids[pod.name] = pod.pid
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

    def starting(self, start: fleet.StartPod) -> None:
        """A pod is started; what an earlier master began and did not live to see is the same start."""
        because, life = start.relaunched_because, self._recorder.history.life(start.name)
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
            self._efforts[worker] = 0.0, 0
        self._record(events.WorkerJoined(time=time.time(), worker=worker))

    def measured(self, version: int, loss: float | None, rate: float | None) -> None:
        """A worker told where the training stands."""
        if version >= self._job.version:
            self._loss = self._loss if loss is None else loss
            self._rate = self._rate if rate is None else rate

    def worked(self, worker: str, seconds: float, records: int) -> None:
        """A worker told what it has done since it began; one that was there before us, beyond that."""
        before_seconds, before_records = self._efforts.get(worker, (seconds, records))
        self._efforts[worker] = seconds, records
        self._progress.worked(time.time(), seconds=seconds - before_seconds, records=records - before_records)

    def checkpoint(self, version: int, seconds: float, size: int) -> None:
        """A checkpoint is complete."""
        log.info("checkpoint version-%d saved: %d bytes in %.2f s", version, size, seconds)
        self._record(events.CheckpointSaved(time=time.time(), version=version, seconds=seconds, bytes=size))

    def era(self, era: int, origin: Origin, again: int) -> None:
        """A new era of the model began."""
        if origin.how == "checkpoint":
            log.info(
                "the model is that of %s: version %d, %d records are trained again",
                origin.checkpoint,
                origin.version,
                again,
            )
        elif era > 1:
            what = (
                "the workers' freshest copy"
                if origin.how == "copy"
                else "its beginning (there was no copy left)"
            )
            log.warning(
                "the model is back at %s: version %d, %d records are trained again",
                what,
                origin.version,
                again,
            )
        if era > 1 or origin.how != "fresh":
            source = Path(origin.checkpoint).name or (
                "a worker's copy" if origin.how == "copy" else "its beginning"
            )
            self._record(
                events.ModelRestored(
                    time=time.time(), version=origin.version, records_again=again, source=source
                )
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

    async def sample_for_ever(self) -> None:
        """Take a sample each second; now and then a log line and a report."""
        while True:
            self.sample()
            await asyncio.sleep(SAMPLE_SECONDS)  # the clock itself is what is waited for

    def sample(self) -> None:
        """Record where the job stands."""
        now, main, history = time.time(), self._job.main, self._recorder.history
        done = main.records_done if main else 0
        self._progress.update(now, done=done)
        running = sum(life.state == "running" for life in history.workers)
        self._record(
            events.Sample(
                time=now,
                records_done=done,
                records_per_second=self._progress.records_per_second(now),
                loss=self._loss,
                version=self._job.version,
                epoch=main.begun if main else 0,
                learning_rate=self._rate,
                workers_running=running,
                workers_wanted=self._spec.num_workers,
                training_seconds=self._progress.training_seconds,
            )
        )
        self._write_status()
        if self._display is not None:
            self._show(self._display, now)
        elif now >= self._next_line:
            self._next_line = now + LINE_SECONDS
            self._say_progress(done, now, running)
        if now >= self._next_report:
            self._next_report = now + REPORT_SECONDS
            self._write_report()

    def _show(self, display: Display, now: float) -> None:
        """On the terminal, while there is one: the job needs nobody who looks on."""
        left = self._progress.seconds_left(now)
        try:
            display(live_state(self._recorder.history, now=now, seconds_left=left, message=self.message))
        except OSError as problem:
            self._display = None
            log.warning("the live view ends, and the log goes on: %s", problem)

    def _say_progress(self, done: int, now: float, running: int) -> None:
        if self._job.main is None:
            log.info("%d of %d workers run", running, self._spec.num_workers)
            return
        loss = "" if self._loss is None else f", loss {self._loss:.4g}"
        log.info(
            "%d of %s records done, %.0f records/s%s, version %d, %d of %d workers run",
            done,
            self._progress.total or "endless",
            self._progress.records_per_second(now),
            loss,
            self._job.version,
            running,
            self._spec.num_workers,
        )

    def end(self, outcome: Outcome) -> None:
        """The job is over: the last figures, the report, the verdict."""
        self.evaluated()
        if self._job.evaluation is not None:
            log.info("Evaluation service stopped")
        self.sample()
        self._status = outcome.status
        now, (cause, code) = time.time(), _MASTERS_END[outcome.status]
        self._record(
            events.PodEnded(time=now, pod=self._master, role=Role.MASTER, cause=cause, exit_code=code)
        )
        self._record(events.JobEnded(time=now, status=outcome.status, error=outcome.error))
        self.pids.clear()
        self._write_status()
        self._write_report()
        self._recorder.close()
        if self._page is not None:
            self._page.close()
        if self._job.exported:
            log.info("the model is in %s", self._job.exported)
        log.info("the report is %s", self._folder / "report.html")
        self._verdict()

    def aside(self, reason: str) -> None:
        """This master goes, the job does not; if no other comes, that was all: so it is written down."""
        self.message, self._left = reason, True
        self._write_report()
        self.sample()

    def over(self, outcome: Outcome) -> None:
        """An earlier master has ended the job; if it died before it had said so, that is done now."""
        if self._recorder.history.ended is None:
            self.begin()
            self.end(outcome)
        else:
            self._verdict()

    def _verdict(self) -> None:
        log.info("%s", summary.verdict(self._summary()))

    def status(self) -> master_pb2.StatusReply:
        """The job as it stands, for the command line."""
        return describe(
            self._job,
            self._recorder.history,
            pids=self.pids,
            status=self._status,
            pace=self._progress.records_per_second(time.time()),
            loss=self._loss,
        )

    def _summary(self) -> summary.Summary:
        found = summary.summarize(self._recorder.history, model=self._job.exported)
        return dataclasses.replace(found, status="stopped") if self._left else found

    def _write_status(self) -> None:
        text = json_format.MessageToJson(self.status(), preserving_proto_field_name=True, indent=None)
        self._write(
            lambda: write_atomically(self._folder / "status.json", text, durable=self._status != "running"),
            lambda: summary.write_summary(self._summary(), self._folder / "summary.json"),
        )

    def _write_report(self) -> None:
        self._write(self._render)

    def _render(self) -> None:
        page = render(
            events.read_events(self._folder / events.FILE_NAME), self._summary(), _facts(self._spec)
        )
        write_atomically(self._folder / "report.html", page)

    def _write(self, *writes: Callable[[], None]) -> None:
        """What cannot be written (a full disk) is said, and not missed by the job."""
        for write in writes:
            try:
                write()
            except (OSError, ElasticError) as problem:
                log.warning("the job's state could not be written down: %s", problem)

    def _record(self, event: Event) -> None:
        self._recorder.record(event)
        self._metrics.observe(event)


def _result(version: int, metrics: Mapping[str, float]) -> tuple[int, str]:
    """A result to look up; a version may be evaluated again after the model went back."""
    return version, repr(dict(metrics))


def _facts(spec: JobSpec) -> list[Fact]:
    """The settings that differ from their defaults."""
    shown = []
    for flag in flags(JobSpec):
        value: Any = getattr(spec, flag.name)
        default = flag.default(None)
        if value != default and value not in ("", None):
            shown.append(Fact(flag.option, str(value), "" if default is None else str(default)))
    return shown

"""Where a job stands: its figures, taken each second, and the files and the page that show them.

All that happened goes through `record`; samples of where the job stands, the status for the command line, the
summary, the report, the metrics page and the live view are made of that and of what workers measured.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.job import Job
from elastic_runtime.master.status import describe
from elastic_runtime.observe import events, summary
from elastic_runtime.observe.events import Event
from elastic_runtime.observe.files import write_atomically
from elastic_runtime.observe.history import History
from elastic_runtime.observe.live_state import LiveState, live_state
from elastic_runtime.observe.metrics import Metrics, MetricsPage
from elastic_runtime.observe.progress import Progress
from elastic_runtime.observe.recorder import Recorder
from elastic_runtime.observe.report import Fact, render
from elastic_runtime.rpc import master_pb2
from elastic_runtime.spec.flags import flags
from elastic_runtime.spec.job import JobSpec

log = logging.getLogger(__name__)

Display = Callable[[LiveState], None]

SAMPLE_SECONDS = 1.0
LINE_SECONDS = 10.0
REPORT_SECONDS = 30.0


class Standing:
    """The figures of one job's master, and who is shown them."""

    def __init__(self, spec: JobSpec, folder: Path, job: Job, display: Display | None) -> None:
        self._spec, self._folder, self._job, self._display = spec, folder, job, display
        self._recorder = Recorder(folder, listeners=[])
        self._metrics = Metrics()
        self._page: MetricsPage | None = None
        self._progress = Progress(started=time.time(), total=0)
        self._efforts: dict[str, tuple[float, int]] = {}  # seconds and records that workers told of
        self._loss: float | None = None
        self._rate: float | None = None
        self._next_line = self._next_report = 0.0
        self.pids: dict[str, int] = {}
        self.outcome = "running"
        self.message = ""  # what the job waits for
        self.left = False  # this master goes, and nobody may come after it

    @property
    def history(self) -> History:
        """All that is on record."""
        return self._recorder.history

    def record(self, event: Event) -> None:
        """Put on record what happened."""
        self._recorder.record(event)
        self._metrics.observe(event)

    def serve_metrics(self) -> None:
        """Show the figures on a page, if a port is given."""
        if self._spec.metrics_port:
            self._page = MetricsPage(self._metrics, port=self._spec.metrics_port)
            log.info("metrics are served on port %d", self._page.port)

    def begin(self) -> None:
        """Go on from the last figures on record."""
        last = self.history.last_sample
        self._progress = Progress(
            started=self.history.begin,
            total=self.history.records_total,
            training_seconds=last.training_seconds if last else 0.0,
        )

    def listed(self) -> None:
        """It is known only now how many records there are."""
        self._progress.total = self.history.records_total

    def joined(self, worker: str) -> None:
        """A worker that begins."""
        self._efforts[worker] = 0.0, 0

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

    async def sample_for_ever(self) -> None:
        """Take a sample each second; now and then a log line and a report."""
        while True:
            self.sample()
            await asyncio.sleep(SAMPLE_SECONDS)  # the clock itself is what is waited for

    def sample(self) -> None:
        """Record where the job stands."""
        now, main, history = time.time(), self._job.main, self.history
        done = main.records_done if main else 0
        self._progress.update(now, done=done)
        running = sum(life.state == "running" for life in history.workers)
        self.record(
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
        self.write_status()
        if self._display is not None:
            self._show(self._display, now)
        elif now >= self._next_line:
            self._next_line = now + LINE_SECONDS
            self._say_progress(done, now, running)
        if now >= self._next_report:
            self._next_report = now + REPORT_SECONDS
            self.write_report()

    def _show(self, display: Display, now: float) -> None:
        """On the terminal, while there is one: the job needs nobody who looks on."""
        left = self._progress.seconds_left(now)
        try:
            display(live_state(self.history, now=now, seconds_left=left, message=self.message))
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

    def status(self) -> master_pb2.StatusReply:
        """The job as it stands, for the command line."""
        return describe(
            self._job,
            self.history,
            pids=self.pids,
            status=self.outcome,
            pace=self._progress.records_per_second(time.time()),
            loss=self._loss,
        )

    def summary(self) -> summary.Summary:
        """The whole job in figures."""
        found = summary.summarize(self.history, model=self._job.exported)
        return dataclasses.replace(found, status="stopped") if self.left else found

    def write_status(self) -> None:
        """For whoever looks in the run folder."""
        text = json_format.MessageToJson(self.status(), preserving_proto_field_name=True, indent=None)
        self._write(
            lambda: write_atomically(self._folder / "status.json", text, durable=self.outcome != "running"),
            lambda: summary.write_summary(self.summary(), self._folder / "summary.json"),
        )

    def write_report(self) -> None:
        """Likewise, as a page."""
        self._write(self._render)

    def _render(self) -> None:
        page = render(events.read_events(self._folder / events.FILE_NAME), self.summary(), _facts(self._spec))
        write_atomically(self._folder / "report.html", page)

    def _write(self, *writes: Callable[[], None]) -> None:
        """What cannot be written (a full disk) is said, and not missed by the job."""
        for write in writes:
            try:
                write()
            except (OSError, ElasticError) as problem:
                log.warning("the job's state could not be written down: %s", problem)

    def close(self) -> None:
        """The last figures stay as they are."""
        self._recorder.close()
        if self._page is not None:
            self._page.close()


def _facts(spec: JobSpec) -> list[Fact]:
    """The settings that differ from their defaults."""
    shown = []
    for flag in flags(JobSpec):
        value: Any = getattr(spec, flag.name)
        default = flag.default(None)
        if value != default and value not in ("", None):
            shown.append(Fact(flag.option, str(value), "" if default is None else str(default)))
    return shown

"""What a job leaves in its run folder, brought to the step's outputs: while it runs, and at its end.

The master shows where it stands once a second. From that come the progress line of the log, Argo's progress
file and fresh copies of report, pod table and metrics; each output is whole at any moment. An engine that
stops a step may take its outputs a second later, so there is in them what the log has said; one that takes
none of a step that does not succeed has copies in its store.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_runtime.data import storage
from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.observe import events, figures, words
from elastic_runtime.observe.files import write_atomically
from elastic_runtime.observe.history import History
from elastic_runtime.observe.live_state import LiveState, PodState
from elastic_runtime.observe.outcome import REPORT_NAME
from elastic_runtime.observe.report import pod_table_markdown, render
from elastic_runtime.observe.summary import FILE_NAME, Summary, read_summary, verdict
from elastic_runtime.platform.pods import EXIT_DRAINED
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.model_text import SYMBOLS
from elastic_runtime.steps.artifact import Artifact, address, write_text
from elastic_runtime.steps.in_cluster import follow_pods
from elastic_runtime.steps.pod_lines import PodLines
from elastic_runtime.steps.stored import Stored

if TYPE_CHECKING:
    from elastic_runtime.steps.cluster_pod_lines import ClusterPodLines

log = logging.getLogger(__name__)

LINE_SECONDS = 10.0
_NOT_WRITTEN = "the step's outputs could not be written: %s"
TO_USE_THE_MODEL = ("model_zoo", "model_def", "model_params", "data_reader_params", "minibatch_size")

_LOW_IS_GOOD = (
    *("loss", "error", "mse", "mae", "msle", "mape", "rmse", "entropy", "divergence", "hinge", "poisson"),
    *("logcosh", "log_cosh", "perplexity"),
)
"""In the names of metrics, Keras' own among them."""


class JobEnded(ElasticError):
    """The job did not succeed; the step ends with its exit code."""

    def __init__(self, summary: Summary, exit_code: int, *, goes_on: bool) -> None:
        told = "the step was told to end" if exit_code == EXIT_DRAINED else ""
        if told and goes_on:
            told += ", and goes on with its job when it is run again"
        super().__init__(f"{told}: {verdict(summary)}" if told else verdict(summary))
        self.exit_code = exit_code


class JobOutputs:
    """The outputs of one training step."""

    def __init__(self, *, model: Artifact, metrics: Artifact, report: Artifact, pods: Artifact) -> None:
        self._model, self._metrics, self._report, self._pods = model, metrics, report, pods
        self._stored = Stored({"report": report, "table of pods": pods, "metrics": metrics})
        self._folder = Path()
        self._written: tuple[tuple[PodState, ...], str] | None = None
        self._next_line = 0.0
        self._lines: PodLines | ClusterPodLines | None = None

    def begin(self, spec: JobSpec) -> None:
        """The job is known, and is about to run."""
        self._spec, self._folder = spec, Path(spec.run_dir)
        _make_writable(self._folder)
        if spec.platform == "process":
            self._lines = PodLines(self._folder / "logs", spec.job_name)
        else:
            self._lines = follow_pods(spec)
        workers = figures.plural(spec.num_workers, "worker")
        servers = figures.plural(spec.num_ps_pods or 0, "parameter server")
        how = f"{spec.distribution_strategy}, {workers}, {servers}"
        log.info("job %s: %s, on %s", spec.job_name, how, spec.platform)
        log.info("everything it writes is in %s", self._folder.absolute())

    def show(self, state: LiveState) -> None:
        """Where the job stands; called once a second."""
        try:
            self._show(state, time.monotonic())
        except (OSError, ElasticError) as problem:  # a full disk is no reason to end the job
            log.warning(_NOT_WRITTEN, problem)

    def _show(self, state: LiveState, now: float) -> None:
        if self._lines is not None:
            self._lines.see(state.pods)
        is_due, news = now >= self._next_line, (state.pods, state.message)
        try:
            if is_due or news != self._written:
                self._written = news
                self._write()
            self._stored.refresh(now)
        finally:
            if is_due:
                self._next_line = now + LINE_SECONDS
                log.info("%s", _in_words(state))
                _tell_argo(state.records_done, state.records)

    def could_not_run(self, error: ElasticError) -> None:
        """The outputs say why, unless the job had begun: then they have what it has come to."""
        if self._lines is not None:
            self._lines.close(pods_go_on=True)
        if self._written is None:
            summary = Summary(job=self._folder.name or "training", status="failed", error=str(error))
            with contextlib.suppress(OSError):  # what is wrong is said in the log, too
                write_text(self._report, render((), summary))
                write_text(self._pods, f"{verdict(summary)}\n")
        self._keep(has_come_to_something=self._written is not None)

    def end(self, exit_code: int, *, goes_on: bool = False) -> Summary:
        """The job has ended, or `goes_on` without this step: all is brought in its last state.

        Raises if the job did not succeed.
        """
        if self._lines is not None:
            self._lines.close(pods_go_on=exit_code == EXIT_DRAINED)
        try:
            summary = self._write()
            _tell_argo(summary.records_done, summary.records)
            if not exit_code:
                self._stored.close()
                self._deliver_model(summary)
        except OSError as problem:
            if not exit_code:
                raise self._not_delivered(problem) from problem
            log.warning(_NOT_WRITTEN, problem)  # what has become of the job is to be told all the same
            summary = read_summary(self._folder / FILE_NAME)
        if exit_code:
            self._keep(has_come_to_something=not goes_on)
            raise JobEnded(summary, exit_code, goes_on=goes_on)
        return summary

    @property
    def best_metric(self) -> float:
        """The best value of the first metric over all evaluations; without any, the last loss.

        A diverged model, of which none is a number, comes after all others: it has the worst that there is.
        """
        history = _history(self._folder)
        if not history.evaluations:
            in_order = sorted(history.samples, key=lambda sample: sample.time)
            return _best("loss", [sample.loss for sample in in_order if sample.loss is not None][-1:])
        name = next(iter(history.evaluations[0].metrics))
        return _best(name, [e.metrics[name] for e in history.evaluations if name in e.metrics])

    def _write(self) -> Summary:
        summary = read_summary(self._folder / FILE_NAME)
        history = _history(self._folder)
        write_text(self._pods, f"{verdict(summary)}\n\n{pod_table_markdown(history)}")
        if (page := self._folder / REPORT_NAME).exists():
            write_text(self._report, page.read_text(encoding="utf-8"))
        self._metrics.metadata.update(_figures(summary, history))
        write_text(self._metrics, json.dumps(self._metrics.metadata, indent=2) + "\n")
        return summary

    def _keep(self, *, has_come_to_something: bool) -> None:
        """Say where the report is, if anywhere, or how one that is worth it would be kept."""
        if has_come_to_something and (lost := self._stored.out_of_reach()):
            remedy = "`open_store(task)` of elasticdl_components.store keeps them"
            log.info("gone with this step's pod: its %s; %s", ", ".join(lost), remedy)
        place = address(self._report)
        if storage.local_path(place) is not None:
            log.info("its report is the step's output report, %s", place)
        self._stored.put()

    def _not_delivered(self, problem: OSError) -> ElasticError:
        kept = f"what it has made is in {self._folder.absolute()}"
        if self._spec.platform == "kubernetes":
            kept = "the job is not trained again"
        remedy = f"run the step again when there is room: {kept}"
        return ElasticError(f"the outputs cannot be written: {problem}", remedy=remedy)

    def _deliver_model(self, summary: Summary) -> None:
        """The finished model lies where the job has put it, and a repeated step finds it there, too."""
        storage.fetch_folder(summary.model or self._spec.output, Path(self._model.path))
        self._model.metadata |= {
            "framework": "keras",
            "version": summary.version,
            "job_name": summary.job,
            **{
                name: str(value)
                for name in (*TO_USE_THE_MODEL, *SYMBOLS)
                if (value := getattr(self._spec, name)) != ""
            },
        }


def _make_writable(folder: Path) -> None:
    """A step's own folder need not be one it may write to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as problem:
        remedy = "name a folder that this step can write to"
        raise InputError(
            f"cannot be used: {problem.strerror}", where=f"run_dir={folder}", remedy=remedy
        ) from None


def _history(folder: Path) -> History:
    return History.of(events.read_events(folder / events.FILE_NAME))


def _best(name: str, values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    if any(part in name.lower() for part in _LOW_IS_GOOD):
        return min(finite, default=sys.float_info.max)
    return max(finite, default=-sys.float_info.max)


def _figures(summary: Summary, history: History) -> dict[str, float]:
    most = max((running for _, running in history.worker_steps()), default=0)
    found = {
        **summary.final_metrics,
        "steps": summary.version,
        "records": summary.records_done,
        "records_trained_again": summary.records_retrained,
        "wall_seconds": summary.wall_seconds,
        "goodput": summary.goodput,
        "most_workers": most,
        "pods_relaunched": sum(summary.relaunches.values()),
    }
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


def _in_words(state: LiveState) -> str:
    of = f" of {figures.count(state.records)}" if state.records else ""
    parts = [
        f"epoch {state.epoch} of {state.epochs}" if state.epochs else "",
        f"{figures.count(state.records_done)}{of} records",
        f"{figures.figure(state.records_per_second)} records/s",
        f"loss {figures.figure(state.loss)}" if state.loss is not None else "",
        words.metrics(state.metrics) if state.metrics else "",
        f"{state.workers_running} of {figures.plural(state.workers_wanted, 'worker')}",
        f"{figures.duration(state.seconds_left)} left" if state.seconds_left else "",
        state.message,
    ]
    return ", ".join(filter(None, parts))


def _tell_argo(done: int, total: int) -> None:
    if total and (path := os.environ.get("ARGO_PROGRESS_FILE")):
        write_atomically(Path(path), f"{min(done, total)}/{total}\n", durable=False)

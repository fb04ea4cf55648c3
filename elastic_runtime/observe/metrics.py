"""A job's figures for Prometheus: the same events as everywhere, counted, and a page to scrape them from."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe.events import (
    CheckpointSaved,
    Evaluation,
    Event,
    JobEnded,
    JobStarted,
    ModelRestored,
    PodStarted,
    Sample,
    ShardRequeued,
)

_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)


class Metrics:
    """The registry of one job. `observe` takes every event; leases are too frequent to be events."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._job = self._gauge("job", "1 for the job this process runs", "job", "strategy")
        self._succeeded = self._gauge("job_succeeded", "1 or 0 once the job has ended")
        self._total = self._gauge("records", "Records of the job, all epochs")
        self._done = self._counter("records_done", "Records done")
        self._again = self._counter("records_retrained", "Records trained again after a loss")
        self._rate = self._gauge("records_per_second", "Records a second of late")
        self._loss = self._gauge("loss", "Training loss of late")
        self._version = self._gauge("model_version", "Version of the model")
        self._workers = self._gauge("workers", "Workers running")
        self._wanted = self._gauge("workers_wanted", "Workers wanted")
        self._metric = self._gauge("evaluation_metric", "Figure of the last evaluation", "name")
        self._relaunches = self._counter("relaunches", "Pods started again", "role", "cause")
        self._lease = self._seconds("lease_seconds", "Time from a shard's lease to its report")
        self._saving = self._seconds("checkpoint_seconds", "Time to save a checkpoint")
        self._counted = 0

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"elasticdl_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"elasticdl_{name}", text, labels, registry=self.registry)

    def _seconds(self, name: str, text: str) -> Histogram:
        return Histogram(f"elasticdl_{name}", text, buckets=_SECONDS, registry=self.registry)

    def observe(self, event: Event) -> None:
        """Count an event."""
        match event:
            case JobStarted():
                self._job.labels(event.job, event.strategy).set(1)
                self._total.set(event.records_total)
            case Sample():
                self._sample(event)
            case PodStarted() if event.because:
                self._relaunches.labels(event.role, event.because).inc()
            case ShardRequeued():
                self._again.inc(event.records)
            case ModelRestored():
                self._again.inc(event.records_again)
            case Evaluation():
                for name, value in event.metrics.items():
                    self._metric.labels(name).set(value)
            case CheckpointSaved():
                self._saving.observe(event.seconds)
            case JobEnded():
                self._succeeded.set(event.status == "succeeded")
            case _:
                pass

    def lease_ended(self, seconds: float) -> None:
        """A shard was reported done after so long."""
        self._lease.observe(seconds)

    def _sample(self, sample: Sample) -> None:
        self._done.inc(max(0, sample.records_done - self._counted))
        self._counted = sample.records_done
        self._rate.set(sample.records_per_second)
        self._version.set(sample.version)
        self._workers.set(sample.workers_running)
        self._wanted.set(sample.workers_wanted)
        if sample.loss is not None:
            self._loss.set(sample.loss)


class MetricsPage:
    """Serves a registry at `/metrics` until closed. Port 0 takes any free one; `port` says which."""

    def __init__(self, metrics: Metrics, *, port: int, host: str = "127.0.0.1") -> None:
        self._server: WSGIServer
        self._thread: threading.Thread
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=metrics.registry)
        except (OSError, OverflowError) as error:
            what, remedy = f"cannot serve metrics: {error}", "choose another --metrics_port"
            raise ElasticError(what, where=f"{host}:{port}", remedy=remedy) from error
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Stop serving and wait for the server's thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

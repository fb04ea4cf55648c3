"""Events in plain words, for the live view, the report and the tables of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from elastic_runtime.observe import figures
from elastic_runtime.observe.events import (
    CheckpointSaved,
    EpochFinished,
    Evaluation,
    Event,
    JobEnded,
    JobStarted,
    ModelRestored,
    PodEnded,
    PodRunning,
    PodStarted,
    PodWaiting,
    ShardRequeued,
    WorkerJoined,
    WorldFormed,
)
from elastic_runtime.observe.history import PodLife

_ENDS: Mapping[str, str] = {
    "completed": "finished its work",
    "drained": "gave its work back and left",
    "preempted": "was preempted",
    "node_lost": "was lost with its node",
    "out_of_memory": "ran out of memory",
    "error": "failed",
    "never_started": "could not be started",
    "unknown": "ended while no master was watching",
}
_STATES: Mapping[str, str] = {
    "pending": "waiting",
    "node_lost": "lost with their node",
    "out_of_memory": "out of memory",
    "error": "failed",
    "never_started": "never started",
    "unknown": "gone unwatched",
}
_CAUSES: Mapping[str, str] = {
    "completed": "completion",
    "drained": "a drain",
    "preempted": "preemption",
    "node_lost": "loss of the node",
    "out_of_memory": "lack of memory",
    "error": "an error",
    "never_started": "a failed start",
    "unknown": "an unknown cause",
}
_ROLES: Mapping[str, str] = {"ps": "parameter server"}


def cause(name: str) -> str:
    """A cause of exit as a noun: `out_of_memory` is `lack of memory`."""
    return _CAUSES.get(name, name.replace("_", " "))


def role(name: str) -> str:
    """A pod's role: `ps` is `parameter server`."""
    return _ROLES.get(name, name)


def end(cause: str, exit_code: int | None = None, detail: str = "") -> str:
    """How a pod ended: `failed (exit code 1): no such file`. What went well needs no detail."""
    telling = exit_code and cause in {"error", "never_started", "unknown"} and "exit code" not in detail
    code = f" (exit code {exit_code})" if telling else ""
    more = f": {detail}" if detail and cause != "completed" else ""
    return _ENDS.get(cause, cause.replace("_", " ")) + code + more


def state(name: str) -> str:
    """Where pods are, or how they ended, after their number: `3 workers out of memory`."""
    return _STATES.get(name, name.replace("_", " "))


def fate(pod: PodLife, *, job_over: bool = False) -> str:
    """What became of a pod, or what it does now."""
    if pod.ended is not None:
        return end(pod.cause, pod.exit_code, pod.detail)
    if job_over:
        return "outlived the job" if pod.running is not None else "never ran"
    if pod.running is not None:
        return "running"
    return f"waiting: {pod.detail}" if pod.detail else "waiting to start"


def metrics(values: Mapping[str, float]) -> str:
    """`accuracy 0.974, auc 0.99`."""
    return ", ".join(f"{name} {figures.figure(value)}" for name, value in values.items())


def describe(event: Event) -> str:
    """The event as a sentence without its time; empty for those that are not worth one."""
    match event:
        case JobStarted():
            return _job_started(event)
        case PodStarted() if event.because:
            return f"{event.pod} started as a replacement after {cause(event.because)}"
        case PodStarted():
            return f"{event.pod} started"
        case PodWaiting():
            return f"{event.pod} waits: {event.detail}"
        case PodRunning():
            return f"{event.pod} {'was running already' if event.adopted else 'runs'}"
        case PodEnded():
            return f"{event.pod} {end(event.cause, event.exit_code, event.detail)}"
        case WorkerJoined():
            return f"{event.worker} joined"
        case WorldFormed():
            change = f", {event.change}" if event.change else ""
            train = "1 worker trains" if event.workers == 1 else f"{event.workers} workers train together"
            return f"world {event.world}: {train}{change}"
        case ShardRequeued():
            again = f", {figures.plural(event.records, 'record')} of them again" if event.records else ""
            why = f" ({event.reason})" if event.reason else ""
            return f"records {event.start}-{event.end} of {event.source} back in the queue{again}{why}"
        case Evaluation():
            return f"version {event.version} evaluated: {metrics(event.metrics)}"
        case CheckpointSaved():
            facts = f"{figures.size(event.bytes)} in {figures.duration(event.seconds)}"
            return f"checkpoint of version {event.version} saved ({facts})"
        case ModelRestored():
            source = f" from {event.source}" if event.source else ""
            again = f"; {figures.plural(event.records_again, 'record')} again" if event.records_again else ""
            return f"model back to version {event.version}{source}{again}"
        case EpochFinished():
            return f"epoch {event.epoch} done"
        case JobEnded():
            return f"job {event.status}" + (f": {event.error}" if event.error else "")
        case _:
            return ""


def _job_started(event: JobStarted) -> str:
    if event.resumed:
        return "a new master took the job over"
    if not event.records_total:
        return f"job {event.job} started"
    records, epochs = figures.plural(event.records_total, "record"), figures.plural(event.epochs, "epoch")
    return f"job {event.job} started: {records} in {epochs}"

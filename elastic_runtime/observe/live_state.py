"""A job at one moment, as plain facts for whoever shows it: the terminal's live view or `job status`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elastic_runtime.observe import words
from elastic_runtime.observe.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A pod now: `state` is pending, running or ended; `words` say it for people."""

    name: str
    role: str
    state: str
    words: str
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """What a live view shows; `events` are the last ones in words, with the seconds since the job's start."""

    job: str = ""
    status: str = "running"
    message: str = ""
    seconds: float = 0.0
    seconds_left: float | None = None
    epoch: int = 0
    epochs: int = 0
    records_done: int = 0
    records: int = 0
    records_per_second: float = 0.0
    version: int = 0
    loss: float | None = None
    evaluated_version: int = 0
    metrics: Mapping[str, float] | None = None
    workers_running: int = 0
    workers_wanted: int = 0
    pods: tuple[PodState, ...] = ()
    events: tuple[tuple[float, str], ...] = ()


def live_state(
    history: History, *, now: float, seconds_left: float | None = None, message: str = ""
) -> LiveState:
    """The job's state at `now`; `message` says what it waits for."""
    sample, evaluated = history.last_sample, history.evaluations[-1:]
    told = [(event.time - history.begin, words.describe(event)) for event in history.recent]
    return LiveState(
        job=history.job,
        status=history.status,
        message=message or history.error,
        seconds=max(0.0, now - history.begin),
        seconds_left=seconds_left,
        epoch=sample.epoch if sample else 0,
        epochs=history.epochs,
        records_done=history.records_done,
        records=history.records_total,
        records_per_second=sample.records_per_second if sample else 0.0,
        version=sample.version if sample else 0,
        loss=sample.loss if sample else None,
        evaluated_version=evaluated[0].version if evaluated else 0,
        metrics=evaluated[0].metrics if evaluated else None,
        workers_running=sum(pod.state == "running" for pod in history.workers),
        workers_wanted=sample.workers_wanted if sample else 0,
        pods=tuple(
            PodState(name=pod.name, role=pod.role, state=pod.state, words=words.fate(pod), lost=pod.lost)
            for pod in history.current_pods
        ),
        events=tuple((at, text) for at, text in told if text),
    )

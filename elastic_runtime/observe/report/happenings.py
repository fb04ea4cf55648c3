"""What happened, in an order and an amount a person reads: a few dozen lines for ten seconds or for a week.

A short story is told event by event. In a long one, events of one sort in one stretch of time become one
line, and if even that is too much, the middle is left out and said to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elastic_runtime.observe import figures, words
from elastic_runtime.observe.events import (
    CheckpointSaved,
    Evaluation,
    Event,
    JobEnded,
    JobStarted,
    ModelRestored,
    PodEnded,
    PodRunning,
    PodStarted,
    Sample,
    ShardRequeued,
    WorkerJoined,
    kind,
)
from elastic_runtime.observe.history import LOST_CAUSES

_SHORT = 40
_STRETCHES = 30
_LINES = 60


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the story; `tone` is good, bad or empty."""

    time: float
    words: str
    tone: str = ""


def story(events: Sequence[Event]) -> list[Line]:
    """The lines of a job's story."""
    told = sorted((e for e in events if _worth_telling(e)), key=lambda e: e.time)
    if len(told) <= _SHORT:
        return [_line([event]) for event in told]
    begin, length = told[0].time, (told[-1].time - told[0].time) / _STRETCHES
    groups: dict[tuple[int, str], list[Event]] = {}
    for event in told:
        stretch = int((event.time - begin) / length) if length > 0 else 0
        groups.setdefault((stretch, _sort(event)), []).append(event)
    lines = sorted((_line(group) for group in groups.values()), key=lambda line: line.time)
    if len(lines) <= _LINES:
        return lines
    half = _LINES // 2
    gap = Line(lines[half].time, f"… {figures.plural(len(lines) - 2 * half, 'line')} left out …")
    return [*lines[:half], gap, *lines[-half:]]


def _worth_telling(event: Event) -> bool:
    match event:
        case Sample() | Evaluation():
            return False
        case PodStarted():
            return bool(event.because)
        case PodRunning():
            return event.adopted
        case _:
            return bool(words.describe(event))


def _sort(event: Event) -> str:
    match event:
        case PodEnded() | PodStarted():
            detail = event.cause if isinstance(event, PodEnded) else event.because
            return f"{kind(event)} {event.role} {detail}"
        case JobStarted() | JobEnded():
            return f"{kind(event)} {event.time}"
        case _:
            return kind(event)


def _line(events: Sequence[Event]) -> Line:
    first = events[0]
    tone = ""
    if (isinstance(first, PodEnded) and first.cause in LOST_CAUSES) or isinstance(first, ModelRestored):
        tone = "bad"
    elif isinstance(first, JobEnded):
        tone = {"succeeded": "good", "failed": "bad"}.get(first.status, "")
    return Line(first.time, words.describe(first) if len(events) == 1 else _together(events), tone)


def _together(events: Sequence[Event]) -> str:
    first, last, number = events[0], events[-1], len(events)
    match first, last:
        case PodEnded(), _:
            return f"{_pods(number, first.role)} {words.state(first.cause)}"
        case PodStarted(), _:
            return f"{_pods(number, first.role)} started as replacements after {words.cause(first.because)}"
        case WorkerJoined(), _:
            return f"{figures.plural(number, 'worker')} joined"
        case ShardRequeued(), _:
            records = sum(e.records for e in events if isinstance(e, ShardRequeued))
            again = f", {figures.plural(records, 'record')} of them again" if records else ""
            return f"{figures.plural(number, 'shard')} back in the queue{again}"
        case CheckpointSaved(), CheckpointSaved():
            return f"{figures.plural(number, 'checkpoint')} saved, the last of version {last.version}"
        case _:
            return f"{words.describe(first)}, and {number - 1} more like it"


def _pods(number: int, role: str) -> str:
    return figures.plural(number, words.role(role))

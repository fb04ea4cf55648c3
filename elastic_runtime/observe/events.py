"""What happens in a job, as facts: one dataclass a kind, one JSON object a line in `<run_dir>/events.jsonl`.

All that people are shown (live view, metrics, summary, report) is made from this stream, so a master started
again reads it back and goes on telling the same story. The file is for looking at, never for deciding: a torn
or unknown line is passed over, and a full disk costs the record of an event, not the job.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FILE_NAME = "events.jsonl"

_YEAR_10000 = 253_402_300_800

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, at `time` in seconds since 1970."""

    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(Event):
    """A master began the job, or (`resumed`) took it over from one that had gone."""

    job: str
    strategy: str = ""
    epochs: int = 0
    records_total: int = 0
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStarted(Event):
    """A pod was asked for. `because` is the cause of its predecessor's end, if it replaces one."""

    pod: str
    role: str
    index: int = 0
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWaiting(Event):
    """A pod does not run yet, for the reason in `detail` (no room, image not found)."""

    pod: str
    role: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRunning(Event):
    """A pod runs; `adopted` if it did so already when this master came."""

    pod: str
    role: str
    adopted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnded(Event):
    """A pod is gone; `cause` is one of the platform's causes of exit."""

    pod: str
    role: str
    cause: str
    exit_code: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJoined(Event):
    """A worker registered and may be given shards."""

    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldFormed(Event):
    """Workers train together in a new world of AllReduce; `change` is how it differs from the last."""

    world: int
    workers: int
    change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRequeued(Event):
    """A shard came back unfinished; `records` of it had been trained and will be trained again."""

    worker: str
    source: str
    start: int
    end: int
    records: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Event):
    """The figures of one version of the model."""

    version: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Event):
    """A checkpoint is complete on disk."""

    version: int
    seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRestored(Event):
    """The model went back to an earlier version; `source` says where it came from."""

    version: int
    records_again: int = 0
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFinished(Event):
    """Every record of an epoch is done."""

    epoch: int
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Event):
    """Where the job stands. `training_seconds` is the time so far in which workers were in finished steps."""

    records_done: int
    records_per_second: float = 0.0
    loss: float | None = None
    version: int = 0
    epoch: int = 0
    learning_rate: float | None = None
    workers_running: int = 0
    workers_wanted: int = 0
    training_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded(Event):
    """The job is over: succeeded, failed or stopped."""

    status: str
    error: str = ""


def kind(event: Event | type[Event]) -> str:
    """The event's name in the file: `PodEnded` is `pod_ended`."""
    cls = event if isinstance(event, type) else type(event)
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


_KINDS: dict[str, type[Event]] = {
    kind(cls): cls
    for cls in (
        JobStarted,
        PodStarted,
        PodWaiting,
        PodRunning,
        PodEnded,
        WorkerJoined,
        WorldFormed,
        ShardRequeued,
        Evaluation,
        CheckpointSaved,
        ModelRestored,
        EpochFinished,
        Sample,
        JobEnded,
    )
}


def to_json(event: Event) -> str:
    """One line of strict JSON; a float that JSON cannot say (NaN, infinity) is written as text."""
    values = {f.name: _plain(getattr(event, f.name)) for f in dataclasses.fields(event)}
    return json.dumps({"time": values.pop("time"), "kind": kind(event), **values}, allow_nan=False)


def from_json(line: str | bytes) -> Event | None:
    """The event of a line, or None if it is torn, of an unknown kind or not an event at all."""
    try:
        raw = json.loads(line)
        cls = _KINDS[raw["kind"]]
        values: dict[str, Any] = {
            name: read(raw[name]) for name, read in _READERS[cls].items() if name in raw
        }
        event = cls(**values)
        return event if 0 <= event.time < _YEAR_10000 else None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def read_events(path: Path) -> list[Event]:
    """All events of a file, oldest first; a missing file is an empty one."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    events = [from_json(line) for line in lines]
    unread = events.count(None)
    if unread:
        _log.debug("%s: passed over %d of %d lines, torn or of a newer version", path, unread, len(lines))
    return [event for event in events if event is not None]


class EventLog:
    """Appends events to a file, each by one write, so that a reader meets whole lines but for the last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._torn = _ends_torn(self._file)
        self._said = False

    def append(self, event: Event) -> None:
        """Write the event; what a full disk swallows is said once and not missed by the job."""
        line = to_json(event).encode() + b"\n"
        if self._torn:
            line = b"\n" + line
        try:
            self._torn = os.write(self._file, line) < len(line)
        except OSError as error:
            self._torn = True
            if not self._said:
                _log.warning("%s: cannot record events: %s", self._path, error.strerror)
                self._said = True

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _ends_torn(file: int) -> bool:
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _exactly(kind: type) -> Callable[[object], object]:
    def check(value: object) -> object:
        if type(value) is not kind:
            raise TypeError(f"got {value!r}")
        return value

    return check


def _int(value: object) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise TypeError(f"got {value!r}")
    return value


def _float(value: object) -> float:
    if type(value) not in {float, int, str}:
        raise TypeError(f"got {value!r}")
    return float(value)  # type: ignore[arg-type]


def _floats(value: object) -> Mapping[str, float]:
    if not isinstance(value, dict):
        raise TypeError(f"got {value!r}")
    return {name: _float(item) for name, item in value.items()}


_READ: Mapping[str, Callable[[object], object]] = {
    "str": _exactly(str),
    "int": _int,
    "bool": _exactly(bool),
    "int | None": lambda value: None if value is None else _int(value),
    "float": _float,
    "float | None": lambda value: None if value is None else _float(value),
    "Mapping[str, float]": _floats,
}
_READERS = {
    cls: {field.name: _READ[str(field.type)] for field in dataclasses.fields(cls)} for cls in _KINDS.values()
}

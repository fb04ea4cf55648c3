"""What the evaluation is told and what it answers, beside the ledger's own events, which it takes too.

Of the ledger's events it takes `Ask`, `Progress`, `AtWork`, `Failed`, `GivenBack`, `WorkerLost`, `Expire`,
`Resumed` and `Reopened`; in their leases, `epoch` is the version that is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from elastic_runtime.master import ledger
from elastic_runtime.master.evaluation.states import MetricState, pack, unpack
from elastic_runtime.master.ledger import Lease, Shard


class Kind(Enum):
    """What a lease is for: first the shards, then, once all are in, one result."""

    SHARD = "shard"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class Began:
    """Training began, or went on: the time of time-based evaluations runs."""

    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    """`next_deadline()` has come."""

    now: float


@dataclass(frozen=True, slots=True)
class VersionReached:
    """There is a snapshot of the model at this version; `asked` if it was taken because it was wanted."""

    version: int
    asked: bool = False


@dataclass(frozen=True, slots=True)
class FinalModel:
    """Training is over: the model will stay at this version."""

    version: int


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    """The snapshot wanted for a time-based evaluation could not be taken: it is wanted again when due."""


@dataclass(frozen=True, slots=True)
class SnapshotLost:
    """The snapshot of this version (None: all of them, and the model went back) is no more."""

    version: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PartDone:
    """A worker evaluated one shard; these are its metrics' states."""

    worker: str
    lease: Lease
    states: tuple[MetricState, ...]
    now: float


@dataclass(frozen=True, slots=True)
class ResultReported:
    """A worker turned the summed states into figures."""

    worker: str
    lease: Lease
    metrics: Mapping[str, float]
    now: float


Event = (
    Began
    | Tick
    | VersionReached
    | FinalModel
    | SnapshotFailed
    | SnapshotLost
    | PartDone
    | ResultReported
    | ledger.Ask
    | ledger.Progress
    | ledger.AtWork
    | ledger.Failed
    | ledger.GivenBack
    | ledger.WorkerLost
    | ledger.Expire
    | ledger.Resumed
    | ledger.Reopened
)


@dataclass(frozen=True, slots=True, eq=False)
class Granted:
    """Answer to `Ask`: evaluate the shard on the snapshot (0: the present model), or sum up `states`."""

    worker: str
    kind: Kind
    lease: Lease
    shard: Shard
    version: int
    snapshot: int
    states: tuple[MetricState, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotWanted:
    """Time-based: take a snapshot and say `VersionReached`."""


@dataclass(frozen=True, slots=True)
class EvaluationPlanned:
    """The version will be evaluated after those before it; keep its snapshot."""

    version: int


@dataclass(frozen=True, slots=True)
class EvaluationStarted:
    """Shards of this version can be asked for."""

    version: int
    snapshot: int


@dataclass(frozen=True, slots=True)
class ResultWanted:
    """All shards are in: the result can be asked for."""

    version: int


@dataclass(frozen=True, slots=True)
class SnapshotFree:
    """Evaluation needs this snapshot no more."""

    version: int


@dataclass(frozen=True, slots=True)
class EvaluationFinished:
    """The figures of a version."""

    version: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class EvaluationCancelled:
    """The model went back before it. Should the version be reached again, it will be evaluated then."""

    version: int


@dataclass(frozen=True, slots=True)
class EvaluationSkipped:
    """The version will not be evaluated, and its snapshot is not needed; the job goes on without."""

    version: int
    reason: str


Effect = (
    Granted
    | SnapshotWanted
    | EvaluationPlanned
    | EvaluationStarted
    | ResultWanted
    | SnapshotFree
    | EvaluationFinished
    | EvaluationCancelled
    | EvaluationSkipped
    | ledger.NoWorkNow
    | ledger.NoWorkEver
    | ledger.Renewed
    | ledger.Accepted
    | ledger.Refused
    | ledger.Requeued
    | ledger.JobFailed
)

_OWN: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (Began, Tick, VersionReached, FinalModel, SnapshotFailed, SnapshotLost, ResultReported)
}


def encode(event: Event) -> list[Any]:
    """The event as a row for the journal."""
    row = ledger.encode(event)
    return [pack(value) if isinstance(event, PartDone) and value is event.states else value for value in row]


def decode(row: Sequence[Any]) -> Any:
    """The inverse of `encode`, also after a trip through JSON."""
    if row[0] == PartDone.__name__:
        _, worker, lease, states, now = row
        return PartDone(worker, Lease(*lease), unpack(states), now)
    return ledger.decode(row, _OWN)

"""What the ledger is told (events) and what it answers (effects).

Events carry the time as wall-clock seconds, so a journal of them replays to the same state. `encode` and
`decode` turn an event into a JSON row and back. `changes` tells whether an event must be journalled at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Source:
    """A file (or table) to train from: the records [start, start + records)."""

    name: str
    records: int
    start: int = 0


class Lease(NamedTuple):
    """The right to train one shard once. No two hand-outs ever have the same `attempt`."""

    epoch: int
    shard: int
    attempt: int


class Shard(NamedTuple):
    """The records [start, end) of one source: the unit of accounting."""

    source: str
    start: int
    end: int

    @property
    def records(self) -> int:
        """How many records it has."""
        return self.end - self.start


# Events


@dataclass(frozen=True, slots=True)
class Ask:
    """A worker wants a shard. The same `serial` again (0: none) is the same question, repeated."""

    worker: str
    now: float
    serial: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A worker trained some of a lease it holds: this renews all its leases."""

    worker: str
    lease: Lease
    now: float


@dataclass(frozen=True, slots=True)
class AtWork:
    """A worker did something that another ledger was told of: this renews all its leases here, if any."""

    worker: str
    now: float


@dataclass(frozen=True, slots=True)
class Finished:
    """All records of the shard went through training; `version` is the model's after its last gradient."""

    worker: str
    lease: Lease
    version: int
    now: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The shard could not be trained; `fatal` when trying again cannot help."""

    worker: str
    lease: Lease
    error: str
    fatal: bool
    now: float


@dataclass(frozen=True, slots=True)
class GivenBack:
    """A draining worker hands a shard back after training `records` of it, up to this `version`, if told."""

    worker: str
    lease: Lease
    records: int
    now: float
    version: int = 0


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """The worker is gone, for whatever reason, in order or not."""

    worker: str


@dataclass(frozen=True, slots=True)
class Expire:
    """The worker (one of `Ledger.overdue`) made no progress in time: its leases are void."""

    worker: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """The master was away: all deadlines start anew."""

    now: float


@dataclass(frozen=True, slots=True)
class StopHandingOut:
    """Enough was trained (maximal step, early stop): the job's training ends with the leases in flight."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reopened:
    """A job that failed or was stopped is started again: failures are forgiven, work is handed out again."""


@dataclass(frozen=True, slots=True)
class UndoAfter:
    """The model went back to `version`: what later ones finished is to do again, all leases are void.

    Of a version that is not remembered (or -1: the model begins anew) that is everything.
    """

    version: int


@dataclass(frozen=True, slots=True)
class RollBack:
    """The model went back to a checkpoint: its ledger `state` holds again, all leases are void."""

    state: dict[str, Any]


Event = (
    Ask
    | Progress
    | AtWork
    | Finished
    | Failed
    | GivenBack
    | WorkerLost
    | Expire
    | Resumed
    | StopHandingOut
    | Reopened
    | UndoAfter
    | RollBack
)

# Effects


@dataclass(frozen=True, slots=True)
class Granted:
    """Answer to `Ask`: train this shard."""

    worker: str
    lease: Lease
    shard: Shard


@dataclass(frozen=True, slots=True)
class NoWorkNow:
    """Answer to `Ask`: all that is left is with others and may come back. Ask again after a `Requeued`."""


@dataclass(frozen=True, slots=True)
class NoWorkEver:
    """Answer to `Ask`: leave."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """Answer to `Progress` and `AtWork`."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Answer to `Finished`. A `duplicate` was accepted before and is not counted again."""

    lease: Lease
    shard: Shard
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """Answer to any report on a lease that the worker does not hold (any more)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Requeued:
    """The shard will be handed out again; `again` of its records may have been trained already."""

    worker: str
    lease: Lease
    shard: Shard
    again: int
    reason: str


@dataclass(frozen=True, slots=True)
class Left:
    """The shard was given back when no more work is handed out; `begun` if some of it was trained."""

    lease: Lease
    shard: Shard
    begun: bool


@dataclass(frozen=True, slots=True)
class EpochFinished:
    """Every record of the epoch is done."""

    epoch: int


@dataclass(frozen=True, slots=True)
class AllFinished:
    """Nothing is left to train and nothing is in flight; `reason` if the ledger was told to stop."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """Answer to `StopHandingOut`."""

    reason: str


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Answer to `UndoAfter` and `RollBack`: how many leases are void, how many records are trained again."""

    voided: int
    again: int


@dataclass(frozen=True, slots=True)
class JobFailed:
    """A shard failed for the last time."""

    shard: Shard
    attempts: int
    error: str


Effect = (
    Granted
    | NoWorkNow
    | NoWorkEver
    | Renewed
    | Accepted
    | Refused
    | Requeued
    | Left
    | EpochFinished
    | AllFinished
    | Stopping
    | RolledBack
    | JobFailed
)


def changes(effects: Sequence[object]) -> bool:
    """Whether the event with these effects changed the ledger: it must be durable before it is answered."""
    return any(not isinstance(effect, NoWorkNow | NoWorkEver | Renewed | Refused) for effect in effects)


_EVENTS: dict[str, type[Any]] = {kind.__name__: kind for kind in Event.__args__}


def encode(event: Any) -> list[Any]:
    """The event, a dataclass, as a row for the journal."""
    return [type(event).__name__, *(getattr(event, field.name) for field in fields(event))]


def decode(row: Sequence[Any], kinds: Mapping[str, type[Any]] = MappingProxyType({})) -> Any:
    """The inverse of `encode`, also after a trip through JSON, for events of the ledger and of `kinds`."""
    kind = kinds.get(row[0]) or _EVENTS[row[0]]
    names = [field.name for field in fields(kind)][: len(row) - 1]  # what was added since has its default
    values = dict(zip(names, row[1:], strict=True))
    if "lease" in values:
        values["lease"] = Lease(*values["lease"])
    return kind(**values)

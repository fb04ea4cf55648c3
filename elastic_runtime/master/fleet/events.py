"""What the fleet is told, and what it answers.

Every event that may lead to a start carries the time; every effect is complete in itself, so a list of
events replayed gives the same list of effects.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastic_runtime.platform.pods import ExitCause, Pod, Role


@dataclass(frozen=True, slots=True)
class Begin:
    """All pods there are have been seen: bring the fleet up to its size."""

    now: float


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was there, running or ended, when this master began to watch."""

    pod: Pod
    now: float


@dataclass(frozen=True, slots=True)
class PodRunning:
    """A pod's process runs."""

    name: str


@dataclass(frozen=True, slots=True)
class PodEnded:
    """A pod is no more."""

    name: str
    cause: ExitCause
    exit_code: int | None
    detail: str
    now: float


@dataclass(frozen=True, slots=True)
class WorkerLeft:
    """A worker said goodbye; `reason` is `completed` (no work ever again), `drained`, or why it failed."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Scale:
    """From now on the job wants this many workers."""

    num_workers: int
    now: float


@dataclass(frozen=True, slots=True)
class Drain:
    """Start nothing any more; what runs may end by itself."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The work is over: stop every pod."""

    grace: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed, see `Fleet.next_deadline`."""

    now: float


Event = Begin | PodSeen | PodRunning | PodEnded | WorkerLeft | Scale | Drain | Finish | Tick


@dataclass(frozen=True, slots=True)
class StartPod:
    """Start this pod; asking twice for one name is harmless."""

    name: str
    role: Role
    index: int
    relaunched_because: str = ""


@dataclass(frozen=True, slots=True)
class StopPod:
    """Stop this pod."""

    name: str
    grace: float


@dataclass(frozen=True, slots=True)
class PsLost:
    """A parameter server is gone, and its part of the model with it."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """A worker is gone; its leases are free."""

    name: str
    cause: ExitCause


@dataclass(frozen=True, slots=True)
class GaveUp:
    """One line of workers has used up its relaunches; the job goes on with the others."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailJob:
    """The job cannot go on."""

    reason: str


@dataclass(frozen=True, slots=True)
class BelowMinimum:
    """Fewer workers run than the job's minimum: it waits."""

    running: int
    minimum: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The minimum is reached again."""

    running: int


Effect = StartPod | StopPod | PsLost | WorkerGone | GaveUp | FailJob | BelowMinimum | Recovered

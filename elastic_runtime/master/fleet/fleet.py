"""The fleet: how many pods a job wants, and what is done when one ends.

An event in, a list of effects out; no clock, no I/O. After a restart of the master: `restore(state)`, then
`PodSeen` for every pod the platform knows, then `Begin`. Whatever the state says is there but nobody saw
has ended meanwhile; a start that was decided but maybe never done is asked for again by the same name.

Why a pod ended decides what it costs. Preemption, node loss and draining cost nothing and are answered at
once. Errors of the application, lack of memory and failed starts have a budget per seat and wait longer
each time. A seat that has used up its budget is given up; the job fails when what is left cannot reach its
minimum.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from elastic_runtime.errors import InputError
from elastic_runtime.master.fleet.events import (
    Begin,
    BelowMinimum,
    Drain,
    Effect,
    Event,
    FailJob,
    Finish,
    GaveUp,
    PodEnded,
    PodRunning,
    PodSeen,
    PsLost,
    Recovered,
    Scale,
    StartPod,
    StopPod,
    Tick,
    WorkerGone,
    WorkerLeft,
)
from elastic_runtime.master.fleet.seats import Seat, Seats, SeatState
from elastic_runtime.platform.exits import judge
from elastic_runtime.platform.pods import ExitCause, Phase, Pod, Role, pod_name

_MAY_START = (Begin, PodSeen, PodEnded, Scale, Tick)
_TOLD = {"completed": ExitCause.COMPLETED, "drained": ExitCause.DRAINED}
_WORDS = {
    ExitCause.ERROR: "failed",
    ExitCause.OUT_OF_MEMORY: "ran out of memory",
    ExitCause.NEVER_STARTED: "could not be started",
}


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """Size and patience of a fleet. Budgets are relaunches per seat; `log` says where a pod's log is, and
    `more_memory` what to do when pods of a role lack it.
    """

    job: str
    num_workers: int
    num_ps: int = 0
    min_workers: int = 1
    relaunch_on_worker_failure: int = 1
    max_worker_failures: int | None = None
    relaunch_on_ps_failure: int = 3
    relaunch_on_out_of_memory: int = 3
    relaunch_on_failed_start: int = 5
    backoff: float = 1.0
    max_backoff: float = 60.0
    grace: float = 30.0
    external_workers: bool = False
    log: str = "logs/{pod}.log"
    more_memory: Mapping[Role, str] = field(default_factory=dict)


class Stage(enum.StrEnum):
    """serving -> draining -> finished; only a serving fleet starts pods."""

    SERVING = "serving"
    DRAINING = "draining"
    FINISHED = "finished"


class Fleet:
    """All pods of a job but the master."""

    def __init__(self, config: FleetConfig) -> None:
        self._config = config
        self._stage = Stage.SERVING
        self._looking = True
        self._seen: set[str] = set()
        self._enough: bool | None = None
        self._next_worker = 0
        self._worker_failures = 0
        self._seats = Seats()
        self.num_workers = 0 if config.external_workers else config.num_workers
        self.relaunches: dict[str, int] = {}
        for index in range(config.num_ps):
            self._seats.add(Role.PS, index)
        for index in range(self.num_workers):
            self._seats.add(Role.WORKER, index)

    @property
    def ending(self) -> bool:
        """No pod is started any more."""
        return self._stage is not Stage.SERVING

    @property
    def running_workers(self) -> int:
        """How many workers run now."""
        return self._seats.workers(SeatState.RUNNING)

    @property
    def below_minimum(self) -> bool:
        """Fewer workers run than there must be at least: the job's work waits.

        A minimum of one holds nothing back: whoever asks for work is there, whatever is known of its pod.
        """
        config = self._config
        return config.min_workers > 1 and not config.external_workers and not self._has_enough

    @property
    def _has_enough(self) -> bool:
        """Those count, too, that have left because there is no work any more."""
        return self.running_workers + self._seats.workers(SeatState.COMPLETED) >= self._config.min_workers

    def handle(self, event: Event) -> list[Effect]:
        """What is to be done about this event."""
        effects = self._react(event)
        if self._serving and isinstance(event, _MAY_START):
            effects += self._fill(event.now)
        return effects + self._notice()

    def next_deadline(self) -> float | None:
        """When to send the next `Tick`: a seat's wait is over then."""
        if not self._serving:
            return None
        return min((seat.due for seat in self._seats.vacant() if self._wanted(seat)), default=None)

    def state(self) -> dict[str, Any]:
        """All that a successor needs, as JSON."""
        return {
            "stage": self._stage,
            "num_workers": self.num_workers,
            "next_worker": self._next_worker,
            "worker_failures": self._worker_failures,
            "enough": self._enough,
            "relaunches": self.relaunches,
            "seats": self._seats.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over from the fleet that gave this state; then comes `PodSeen` for each pod, then `Begin`."""
        self._stage = Stage(state["stage"])
        self._looking = True
        self._seen = set()
        self._enough = state["enough"]
        self._next_worker = state["next_worker"]
        self._worker_failures = state["worker_failures"]
        self._seats = Seats.restored(state["seats"])
        self.num_workers = state["num_workers"]
        self.relaunches = dict(state["relaunches"])

    def _react(self, event: Event) -> list[Effect]:
        match event:
            case Begin(now):
                return self._begin(now)
            case PodSeen(pod, now):
                return self._see(pod, now)
            case PodEnded(name):
                seat = self._seats.of(name)
                return self._end(seat, event) if seat else []
            case PodRunning(name):
                return self._run(name)
            case WorkerLeft(name, reason):
                if seat := self._seats.of(name):
                    seat.told = reason
            case Scale(num_workers, now):
                return self._scale(num_workers, now)
            case Drain():
                if self._stage is Stage.SERVING:
                    self._stage = Stage.DRAINING
            case Finish(grace):
                self._stage = Stage.FINISHED
                return [StopPod(seat.pod, grace) for seat in self._seats if seat.pod]
            case Tick():
                pass
        return []

    @property
    def _serving(self) -> bool:
        return self._stage is Stage.SERVING and not self._looking

    def _begin(self, now: float) -> list[Effect]:
        if not self._looking:
            return []
        self._looking = False
        effects: list[Effect] = []
        for seat in [seat for seat in self._seats if seat.pod and seat.pod not in self._seen]:
            if seat.state is SeatState.STARTING and self._serving:
                effects.append(StartPod(seat.pod, seat.role, seat.index, seat.because))
            else:
                lost = "gone while the master was away"
                effects += self._end(seat, PodEnded(seat.pod, ExitCause.PREEMPTED, None, lost, now))
        return effects

    def _see(self, pod: Pod, now: float) -> list[Effect]:
        if pod.role is Role.MASTER:
            return []
        if pod.role is Role.WORKER:
            number = pod.name.rpartition("-")[2]
            self._next_worker = max(self._next_worker, int(number) + 1 if number.isdecimal() else 0)
        seat = self._seats.of(pod.name)
        if pod.phase is Phase.ENDED:
            if seat is None or (self._looking and pod.role is Role.PS and seat.state is SeatState.STARTING):
                return []  # not of this fleet, or perhaps the predecessor of a start that was only decided
            cause = pod.cause or ExitCause.PREEMPTED
            return self._end(seat, PodEnded(pod.name, cause, pod.exit_code, pod.detail, now))
        if seat is None and (seat := self._fitting(pod)):
            seat.because = pod.relaunched_because
            self._seats.take(seat, pod.name, SeatState.STARTING)
        if seat is None:
            return [StopPod(pod.name, self._config.grace)]
        self._seen.add(pod.name)
        if self._to_stop(seat) or pod.phase is Phase.RUNNING:
            return self._run(pod.name)
        return []

    def _fitting(self, pod: Pod) -> Seat | None:
        """The free seat that a pod this fleet knows nothing of may have."""
        seat = self._seats.get(pod.role, pod.index)
        free = seat is not None and seat.state is SeatState.VACANT and self._wanted(seat)
        return seat if free and self._stage is Stage.SERVING else None

    def _run(self, name: str) -> list[Effect]:
        seat = self._seats.of(name)
        if seat is None:
            return []
        if self._to_stop(seat):
            return [StopPod(name, self._config.grace)]  # again: the first came too early or was lost
        self._seats.move(seat, SeatState.RUNNING)
        return []

    def _to_stop(self, seat: Seat) -> bool:
        return seat.state is SeatState.STOPPING or self._stage is Stage.FINISHED

    def _end(self, seat: Seat, end: PodEnded) -> list[Effect]:
        asked = seat.state is SeatState.STOPPING or self._stage is not Stage.SERVING
        end = _as_told(seat, end, asked=asked)
        effects: list[Effect] = []
        if seat.role is Role.WORKER:
            effects.append(WorkerGone(seat.pod, end.cause))
        elif self._stage is not Stage.FINISHED:
            effects.append(PsLost(seat.index, seat.pod))
        allowed = self._allowed(seat.role, end.cause)
        if asked:
            self._vacate(seat, "", end.now)
        elif seat.role is Role.WORKER and end.cause is ExitCause.COMPLETED:
            self._seats.leave(seat, SeatState.COMPLETED)
        elif allowed is None:
            self._vacate(seat, end.cause, end.now)
        else:
            effects += self._charge(seat, end, allowed)
        return effects

    def _allowed(self, role: Role, cause: ExitCause) -> int | None:
        """How many relaunches a seat has for this cause; None where they cost nothing."""
        config = self._config
        of_role = config.relaunch_on_ps_failure if role is Role.PS else config.relaunch_on_worker_failure
        return {
            ExitCause.ERROR: of_role,
            ExitCause.OUT_OF_MEMORY: config.relaunch_on_out_of_memory,
            ExitCause.NEVER_STARTED: config.relaunch_on_failed_start,
        }.get(cause)

    def _charge(self, seat: Seat, end: PodEnded, allowed: int) -> list[Effect]:
        """Count a failure against the seat: it waits longer each time, and is given up in the end."""
        config = self._config
        used = seat.failures[end.cause] = seat.failures.get(end.cause, 0) + 1
        if seat.role is Role.WORKER and end.cause is ExitCause.ERROR:
            self._worker_failures += 1
        limit = config.max_worker_failures
        over = limit is not None and self._worker_failures > limit
        if used <= allowed and not over:
            repeats = sum(seat.failures.values()) - 1
            wait = min(config.max_backoff, config.backoff * 2 ** min(repeats - 1, 30)) if repeats else 0.0
            self._vacate(seat, end.cause, end.now + wait)
            return []
        self._seats.leave(seat, SeatState.GIVEN_UP)
        count = f"{self._worker_failures} of {limit}" if over else f"{used - 1} of {allowed}"
        remedy = config.more_memory.get(seat.role) if end.cause is ExitCause.OUT_OF_MEMORY else ""
        reason = (
            f"{end.name} {_WORDS[end.cause]}: {end.detail or f'exit code {end.exit_code}'} "
            f"({f'{remedy}; ' if remedy else ''}"
            f"{count} relaunches used; log: {config.log.format(pod=end.name)})"
        )
        if seat.role is Role.WORKER and not over and self._possible() >= max(1, config.min_workers):
            return [GaveUp(end.name, reason)]
        self._stage = Stage.DRAINING
        return [FailJob(reason)]

    def _possible(self) -> int:
        workers = (seat for seat in self._seats if seat.role is Role.WORKER and self._wanted(seat))
        return sum(seat.state is not SeatState.GIVEN_UP for seat in workers)

    def _vacate(self, seat: Seat, because: str, due: float) -> None:
        seat.because, seat.due = because, due
        self._seats.leave(seat, SeatState.VACANT)

    def _scale(self, num_workers: int, now: float) -> list[Effect]:
        least = max(1, self._config.min_workers)
        if self._config.external_workers:
            raise InputError("the workers of this job are started by hand", remedy="start or stop one")
        if num_workers < least:
            raise InputError(f"cannot scale to {num_workers} workers", remedy=f"at least {least}")
        self.num_workers = num_workers
        for index in range(num_workers):
            self._seats.add(Role.WORKER, index, now)
        surplus = [seat for seat in self._seats if seat.pod and not self._wanted(seat)]
        for seat in surplus:
            self._seats.move(seat, SeatState.STOPPING)
        return [StopPod(seat.pod, self._config.grace) for seat in surplus]

    def _wanted(self, seat: Seat) -> bool:
        return seat.role is Role.PS or seat.index < self.num_workers

    def _fill(self, now: float) -> list[Effect]:
        """Start a pod on every wanted seat that is vacant and has waited long enough."""
        due = [seat for seat in self._seats.vacant() if self._wanted(seat) and seat.due <= now]
        return [self._start(seat) for seat in due]

    def _start(self, seat: Seat) -> StartPod:
        number = seat.index
        if seat.role is Role.WORKER:
            number, self._next_worker = self._next_worker, self._next_worker + 1
        self._seats.take(seat, pod_name(self._config.job, seat.role, number), SeatState.STARTING)
        if seat.because:
            self.relaunches[seat.because] = self.relaunches.get(seat.because, 0) + 1
        return StartPod(seat.pod, seat.role, seat.index, seat.because)

    def _notice(self) -> list[Effect]:
        """Tell when the running workers fall below the minimum they once had, and when they are back."""
        minimum, running = self._config.min_workers, self.running_workers
        enough, before = self._has_enough, self._enough
        if not self._serving or self._config.external_workers or enough == bool(before):
            return []
        self._enough = enough
        if before is None:
            return []
        return [Recovered(running)] if enough else [BelowMinimum(running, minimum)]


def _as_told(seat: Seat, end: PodEnded, *, asked: bool) -> PodEnded:
    """The end as the worker announced it; code 0 without a word and with work left is an error.

    That it drained says nothing of who made it: an error that its exit code does not tell stays one.
    """
    told = _TOLD.get(seat.told)
    known = end.cause is ExitCause.ERROR and judge(end.exit_code).cause is not ExitCause.ERROR
    if told and not (known and told is ExitCause.DRAINED):
        return replace(end, cause=told)
    if seat.role is Role.WORKER and end.cause is ExitCause.COMPLETED and not asked:
        return replace(end, cause=ExitCause.ERROR, detail="ended with code 0 before the work was done")
    return end

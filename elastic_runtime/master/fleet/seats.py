"""Seats: the places a job has for pods, one for each parameter server and each wanted worker.

A pod comes and goes, its seat stays: it keeps the index (a PS's shard, a worker's priority) and the count
of what went wrong there. A seat has at most one pod at any time, which is what bounds the fleet.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from elastic_runtime.platform.pods import ExitCause, Role


class SeatState(enum.StrEnum):
    """How far a seat is.

    vacant -> starting -> running -> vacant | completed | given_up; starting | running -> stopping -> vacant
    """

    VACANT = "vacant"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    COMPLETED = "completed"
    GIVEN_UP = "given_up"


@dataclass(slots=True)
class Seat:
    """One place: who has it (`pod`), or when (`due`) and why (`because`) it is to be taken again."""

    role: Role
    index: int
    state: SeatState = SeatState.VACANT
    pod: str = ""
    told: str = ""
    due: float = 0.0
    because: str = ""
    failures: dict[ExitCause, int] = field(default_factory=dict)


class Seats:
    """All seats; what the fleet asks on every event is answered without a search."""

    def __init__(self) -> None:
        self._all: dict[tuple[Role, int], Seat] = {}
        self._by_pod: dict[str, Seat] = {}
        self._vacant: dict[tuple[Role, int], Seat] = {}
        self._workers: Counter[SeatState] = Counter()

    def __iter__(self) -> Iterator[Seat]:
        return iter(self._all.values())

    def get(self, role: Role, index: int) -> Seat | None:
        """The seat of this role and index."""
        return self._all.get((role, index))

    def of(self, pod: str) -> Seat | None:
        """The seat this pod has."""
        return self._by_pod.get(pod)

    def workers(self, state: SeatState) -> int:
        """How many worker seats are in this state."""
        return self._workers[state]

    def vacant(self) -> list[Seat]:
        """The seats without a pod that may get one, parameter servers first."""
        return sorted(self._vacant.values(), key=lambda seat: (seat.role != Role.PS, seat.index))

    def add(self, role: Role, index: int, now: float = 0.0) -> None:
        """Add a vacant seat, unless it is there already."""
        if (role, index) not in self._all:
            self._enter(Seat(role, index, due=now))

    def take(self, seat: Seat, pod: str, state: SeatState) -> None:
        """Give the seat to a pod."""
        seat.pod, seat.told = pod, ""
        self._by_pod[pod] = seat
        self.move(seat, state)

    def leave(self, seat: Seat, state: SeatState) -> None:
        """The seat's pod is no more."""
        del self._by_pod[seat.pod]
        seat.pod, seat.told = "", ""
        self.move(seat, state)

    def move(self, seat: Seat, state: SeatState) -> None:
        """Change the seat's state."""
        if seat.role is Role.WORKER:
            self._workers[seat.state] -= 1
            self._workers[state] += 1
        seat.state = state
        if state is SeatState.VACANT:
            self._vacant[seat.role, seat.index] = seat
        else:
            self._vacant.pop((seat.role, seat.index), None)

    def state(self) -> list[dict[str, Any]]:
        """All seats, as JSON."""
        return [asdict(seat) for seat in self]

    @classmethod
    def restored(cls, state: list[dict[str, Any]]) -> Seats:
        """The seats of an earlier `state()`."""
        seats = cls()
        for facts in state:
            failures = {ExitCause(cause): count for cause, count in facts["failures"].items()}
            typed = {"role": Role(facts["role"]), "state": SeatState(facts["state"]), "failures": failures}
            seats._enter(Seat(**{**facts, **typed}))
        return seats

    def _enter(self, seat: Seat) -> None:
        self._all[seat.role, seat.index] = seat
        if seat.pod:
            self._by_pod[seat.pod] = seat
        if seat.role is Role.WORKER:
            self._workers[seat.state] += 1
        self.move(seat, seat.state)

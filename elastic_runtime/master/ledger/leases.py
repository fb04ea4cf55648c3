"""Who holds which lease until when, and what was answered last.

A worker works its leases in the order it got them, so the oldest is the one in training. Its deadline is
its own, not the lease's: progress on one renews all. A worker repeats a question or a report whose answer
got lost, so its last ones are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from elastic_runtime.master.ledger.events import Lease


@dataclass(slots=True)
class _Worker:
    held: dict[int, Lease] = field(default_factory=dict)  # by attempt, oldest first
    finished: Lease | None = None  # the last
    serial: int = 0  # of its last question, and the attempt it was granted
    granted: int = 0


class Leases:
    """The leases of all workers."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._workers: dict[str, _Worker] = {}
        self._deadlines: OrderedDict[str, float] = OrderedDict()  # of workers with leases, earliest first

    def __bool__(self) -> bool:
        return bool(self._deadlines)

    def __len__(self) -> int:
        return sum(len(self._workers[name].held) for name in self._deadlines)

    def __iter__(self) -> Iterator[Lease]:
        return (lease for name in self._deadlines for lease in self._workers[name].held.values())

    def workers(self) -> list[str]:
        """The workers that hold a lease."""
        return list(self._deadlines)

    def of(self, worker: str) -> list[Lease]:
        """What a worker holds, oldest first."""
        return list(self._workers[worker].held.values()) if worker in self._workers else []

    def holds(self, worker: str, lease: Lease) -> bool:
        """Whether exactly this lease is the worker's."""
        return worker in self._workers and self._workers[worker].held.get(lease.attempt) == lease

    def in_training(self, worker: str, lease: Lease) -> bool:
        """Whether this is the oldest of the worker's leases."""
        return next(iter(self._workers[worker].held)) == lease.attempt

    def granted(self, worker: str, serial: int) -> Lease | None:
        """What was granted for the worker's last question, if it was this one and the lease is still held."""
        known = self._workers.get(worker)
        return known.held.get(known.granted) if known and serial and serial == known.serial else None

    def finished(self, worker: str, lease: Lease) -> bool:
        """Whether this is the lease that the worker finished last."""
        return worker in self._workers and self._workers[worker].finished == lease

    def grant(self, worker: str, lease: Lease, serial: int, now: float) -> None:
        """Give the worker a lease. Asking is no progress: it renews nothing that is held already."""
        known = self._workers.setdefault(worker, _Worker())
        if not known.held:
            self.renew(worker, now)
        known.held[lease.attempt] = lease
        known.serial, known.granted = serial, lease.attempt

    def renew(self, worker: str, now: float) -> None:
        """The worker made progress."""
        self._deadlines[worker] = now + self._seconds
        self._deadlines.move_to_end(worker)

    def release(self, worker: str, lease: Lease, now: float, *, finished: bool = False) -> None:
        """The worker reported on the lease for the last time."""
        known = self._workers[worker]
        del known.held[lease.attempt]
        if finished:
            known.finished = lease
        if known.held:
            self.renew(worker, now)
        else:
            del self._deadlines[worker]

    def void(self, worker: str) -> None:
        """The worker holds nothing any more."""
        if self._deadlines.pop(worker, None) is not None:
            self._workers[worker].held.clear()

    def forget(self, worker: str) -> None:
        """The worker, having nothing, will not be heard of again."""
        self._workers.pop(worker, None)

    def forget_finished(self) -> None:
        """Nothing reported so far counts any more."""
        for worker in self._workers.values():
            worker.finished = None

    def next_deadline(self) -> float | None:
        """When the next worker will be overdue."""
        return next(iter(self._deadlines.values()), None)

    def overdue(self, now: float) -> list[str]:
        """The workers whose deadline has passed."""
        late: list[str] = []
        for worker, deadline in self._deadlines.items():
            if deadline > now:
                break
            late.append(worker)
        return late

    def resume(self, now: float) -> None:
        """All deadlines start anew."""
        for worker in list(self._deadlines):
            self.renew(worker, now)

    def state(self) -> dict[str, Any]:
        """All but the deadlines."""
        return {
            name: [list(worker.held.values()), worker.finished, worker.serial, worker.granted]
            for name, worker in self._workers.items()
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue from `state`; nothing expires before `resume`."""
        for name, (rows, finished, serial, granted) in state.items():
            held = {lease.attempt: lease for lease in (Lease(*row) for row in rows)}
            self._workers[name] = _Worker(held, Lease(*finished) if finished else None, serial, granted)
            if held:
                self._deadlines[name] = float("inf")

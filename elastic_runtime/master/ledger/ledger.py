"""The ledger's state machine: events in, effects out; no clock, no thread, no file.

Each record is done exactly once per epoch: a shard is with at most one worker, every report names its lease,
and a report on a lease the worker does not hold is refused. Only `Failed` costs a shard an attempt. An epoch
begins when the one before has nothing left to hand out; what comes back from an earlier one goes out first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.ledger.book import Book
from elastic_runtime.master.ledger.events import (
    Accepted,
    AllFinished,
    Ask,
    Effect,
    EpochFinished,
    Event,
    Expire,
    Failed,
    Finished,
    GivenBack,
    Granted,
    JobFailed,
    Lease,
    NoWorkEver,
    NoWorkNow,
    Progress,
    Refused,
    Renewed,
    Requeued,
    Resumed,
    RollBack,
    RolledBack,
    Source,
    StopHandingOut,
    Stopping,
    UndoAfter,
    WorkerLost,
)
from elastic_runtime.master.ledger.history import History
from elastic_runtime.master.ledger.shards import Shards

_REMEMBERED = 4  # finished leases per worker; a report is repeated right after it was made, if at all


@dataclass(slots=True)
class _Worker:
    """What the ledger knows of a worker: its leases, oldest first; what it finished and asked last."""

    held: dict[int, Lease] = field(default_factory=dict)
    accepted: list[Lease] = field(default_factory=list)
    serial: int = 0
    granted: int = 0


class Ledger:
    """Accounts for every record of every epoch (`epochs` <= 0: without end). `seed` None: shards in order."""

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        records_per_shard: int,
        epochs: int = 1,
        seed: int | None = None,
        max_failures: int = 3,
        lease_seconds: float = 300.0,
        attempts: int = 0,
    ) -> None:
        self.shards = Shards(sources, records_per_shard)
        self.epochs = epochs
        self.records_done = 0
        self.records_retrained = 0
        self.attempts = attempts  # the last one given out
        self.begun = 0  # epochs of which a shard was handed out
        self._seed, self._max_failures, self._lease_seconds = seed, max_failures, lease_seconds
        self._books: dict[int, Book] = {}  # of the epochs begun and not complete, in order
        self._workers: dict[str, _Worker] = {}
        # Of the workers that hold leases, earliest first.
        self._deadlines: OrderedDict[str, float] = OrderedDict()
        self._clock = 0.0
        self._failures: dict[tuple[int, int], int] = {}
        self._history = History()
        self._stopped = ""
        self._failed = False
        self._announced = False

    # What is so now

    @property
    def finished(self) -> bool:
        """Nothing is left to hand out and nothing is in flight."""
        return not self._failed and not self._deadlines and (bool(self._stopped) or self._all_done)

    @property
    def failed(self) -> bool:
        """A shard failed for the last time."""
        return self._failed

    @property
    def records_total(self) -> int | None:
        """Records of all epochs; None without end."""
        return self.epochs * self.shards.records if self.epochs > 0 else None

    def in_flight(self) -> int:
        """How many leases are held."""
        return sum(len(self._workers[name].held) for name in self._deadlines)

    def training_workers(self) -> list[str]:
        """The workers that hold a lease."""
        return list(self._deadlines)

    def leases(self, worker: str) -> list[Lease]:
        """What a worker holds, oldest (the one in training) first."""
        return list(self._workers[worker].held.values()) if worker in self._workers else []

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

    def done_intervals(self, epoch: int) -> dict[str, list[tuple[int, int]]]:
        """The records done in an epoch (counted from 0), as merged intervals of each source."""
        return self.shards.intervals(self._book(epoch).done())

    # What happens

    def handle(self, event: Event) -> list[Effect]:
        """Take one event and tell what follows from it."""
        match event:
            case Ask():
                effects = self._ask(event)
            case Progress():
                effects = self._progress(event)
            case Finished():
                effects = self._finished(event)
            case Failed():
                effects = self._failed_shard(event)
            case GivenBack():
                effects = self._given_back(event)
            case WorkerLost():
                effects = self._void(event.worker, "worker lost")
                self._workers.pop(event.worker, None)
            case Expire():
                effects = self._void(event.worker, "no progress")
            case Resumed():
                effects = self._resumed(event)
            case StopHandingOut():
                self._stopped = event.reason or "stopped"
                effects = [Stopping(self._stopped)]
            case UndoAfter():
                effects = self._undo_after(event)
            case RollBack():
                effects = self._roll_back(event)
            case _:
                assert_never(event)
        if self.finished and not self._announced:
            self._announced = True
            effects.append(AllFinished(self._stopped))
        return effects

    def _ask(self, event: Ask) -> list[Effect]:
        worker = self._workers.get(event.worker) or _Worker()
        if event.serial and event.serial == worker.serial and worker.granted in worker.held:
            lease = worker.held[worker.granted]
            return [Granted(event.worker, lease, self.shards[lease.shard])]
        if self._failed or self._stopped:
            return [NoWorkEver()]
        epoch = self._epoch_with_work()
        if epoch is None:
            return [NoWorkEver() if self._all_done else NoWorkNow()]
        self.attempts += 1
        lease = Lease(epoch, self._books[epoch].take(), self.attempts)
        if not worker.held:  # otherwise asking is no progress, and renews nothing
            self._renew(event.worker, event.now)
        worker.held[lease.attempt] = lease
        worker.serial, worker.granted = event.serial, lease.attempt
        self._workers[event.worker] = worker
        return [Granted(event.worker, lease, self.shards[lease.shard])]

    def _progress(self, event: Progress) -> list[Effect]:
        if not self._holds(event.worker, event.lease):
            return [self._refuse(event.lease)]
        self._renew(event.worker, event.now)
        return [Renewed()]

    def _finished(self, event: Finished) -> list[Effect]:
        lease, worker = event.lease, self._workers.get(event.worker, _Worker())
        if lease in worker.accepted:
            return [Accepted(lease, self.shards[lease.shard], duplicate=True)]
        if not self._holds(event.worker, lease):
            return [self._refuse(lease)]
        shard = self.shards[lease.shard]
        self._release(event.worker, lease, event.now)
        worker.accepted = [*worker.accepted[1 - _REMEMBERED :], lease]
        self._history.add(event.version, lease.epoch, lease.shard)
        self._failures.pop(lease[:2], None)
        self.records_done += shard.records
        book = self._books[lease.epoch]
        book.finish(lease.shard)
        effects: list[Effect] = [Accepted(lease, shard)]
        if not book.undone:
            del self._books[lease.epoch]
            effects.append(EpochFinished(lease.epoch))
        return effects

    def _failed_shard(self, event: Failed) -> list[Effect]:
        lease = event.lease
        if not self._holds(event.worker, lease):
            return [self._refuse(lease)]
        attempts = self._failures[lease[:2]] = self._failures.get(lease[:2], 0) + 1
        effects: list[Effect] = [self._requeue(event.worker, lease, "failed: " + event.error)]
        self._release(event.worker, lease, event.now)
        if event.fatal or attempts >= self._max_failures:
            self._failed = True
            effects = [JobFailed(self.shards[lease.shard], attempts, event.error)]
        return effects

    def _given_back(self, event: GivenBack) -> list[Effect]:
        if not self._holds(event.worker, event.lease):
            return [self._refuse(event.lease)]
        again = max(0, min(event.records, self.shards[event.lease.shard].records))
        effects: list[Effect] = [self._requeue(event.worker, event.lease, "given back", again=again)]
        self._release(event.worker, event.lease, event.now)
        return effects

    def _resumed(self, event: Resumed) -> list[Effect]:
        self._clock = event.now
        for worker in list(self._deadlines):
            self._renew(worker, event.now)
        return []

    # Leases

    def _holds(self, worker: str, lease: Lease) -> bool:
        return worker in self._workers and self._workers[worker].held.get(lease.attempt) == lease

    def _refuse(self, lease: Lease) -> Refused:
        return Refused(f"attempt {lease.attempt} at shard {lease.shard}: not held by this worker (any more)")

    def _renew(self, worker: str, now: float) -> None:
        self._clock = max(self._clock, now)  # a clock set back must not disturb the order of the deadlines
        self._deadlines[worker] = self._clock + self._lease_seconds
        self._deadlines.move_to_end(worker)

    def _release(self, worker: str, lease: Lease, now: float) -> None:
        """The worker holds the lease no more; having reported, it is alive."""
        del self._workers[worker].held[lease.attempt]
        if self._workers[worker].held:
            self._renew(worker, now)
        else:
            del self._deadlines[worker]

    def _requeue(self, worker: str, lease: Lease, reason: str, *, again: int | None = None) -> Requeued:
        """The shard is to do again. Of a worker's leases only the oldest is in training, and counts whole."""
        shard = self.shards[lease.shard]
        if again is None:
            again = shard.records if lease.attempt == next(iter(self._workers[worker].held)) else 0
        self.records_retrained += again
        self._books[lease.epoch].give_back(lease.shard)
        return Requeued(worker, lease, shard, again, reason)

    def _void(self, worker: str, reason: str) -> list[Effect]:
        effects: list[Effect] = [self._requeue(worker, lease, reason) for lease in self.leases(worker)]
        if effects:
            self._workers[worker].held.clear()
            del self._deadlines[worker]
        return effects

    # Epochs

    @property
    def _all_done(self) -> bool:
        return self.shards.count == 0 or (0 < self.epochs <= self.begun and not self._books)

    def _epoch_with_work(self) -> int | None:
        for epoch, book in self._books.items():
            if book.todo:
                return epoch
        if not self.shards.count or 0 < self.epochs <= self.begun:
            return None
        self.begun += 1
        self._books[self.begun - 1] = self._blank_book(self.begun - 1)
        return self.begun - 1

    def _blank_book(self, epoch: int) -> Book:
        return Book(self.shards.count, lambda: self.shards.order(epoch, self._seed))

    def _book(self, epoch: int) -> Book:
        """The book of an epoch in any state: not begun, open, or complete."""
        if epoch in self._books:
            return self._books[epoch]
        book = self._blank_book(epoch)
        if 0 <= epoch < self.begun:
            book.fill()
        return book

    # Going back

    def _undo_after(self, event: UndoAfter) -> list[Effect]:
        undone = self._history.after(event.version)
        before = self.records_done
        voided, again = self._void_all()
        for epoch, shards in undone.items():
            self._books[epoch] = self._book(epoch)
            for shard in shards:
                self._books[epoch].give_back(shard)
                self.records_done -= self.shards[shard].records
        self._books = dict(sorted(self._books.items()))
        self._history.undo(after=event.version)
        return self._rolled_back(voided, again, before - self.records_done)

    def _roll_back(self, event: RollBack) -> list[Effect]:
        before = self.records_done
        voided, again = self._void_all()
        self._load_books(event.state)
        return self._rolled_back(voided, again, max(0, before - self.records_done))

    def _rolled_back(self, voided: int, in_training: int, undone: int) -> list[Effect]:
        self.records_retrained += undone
        self._stopped = ""  # who stopped the ledger judges anew from the earlier model
        self._announced = False
        return [RolledBack(voided, in_training + undone)]

    def _void_all(self) -> tuple[int, int]:
        """Void every lease; the number of them and of the records that were in training."""
        requeued = [effect for name in list(self._deadlines) for effect in self._void(name, "rolled back")]
        for worker in self._workers.values():
            worker.accepted.clear()
        return len(requeued), sum(effect.again for effect in requeued if isinstance(effect, Requeued))

    def forget_before(self, version: int) -> None:
        """The model will never go back before `version`: its history is not needed."""
        self._history.forget(before=version)

    # State

    def state_at(self, version: int) -> dict[str, Any]:
        """For checkpoints: the ledger as of this version; what is finished later or in flight is to do."""
        later = self._history.after(version)
        books = {
            epoch: self._book(epoch).state(without=later.get(epoch, ()))
            for epoch in sorted(self._books.keys() | later.keys())
        }
        return self._state(books, History(version))

    def state(self) -> dict[str, Any]:
        """All of it, as JSON-able values whose size follows fragmentation, not the number of records."""
        workers = {
            name: [list(worker.held.values()), worker.accepted, worker.serial, worker.granted]
            for name, worker in self._workers.items()
        }
        state = self._state({epoch: book.state() for epoch, book in self._books.items()}, self._history)
        state |= {"workers": workers, "deadlines": list(self._deadlines)}
        return state | {"stopped": self._stopped, "announced": self._announced}

    def _state(self, books: dict[int, Any], history: History) -> dict[str, Any]:
        return {
            "data": self.shards.digest,
            "seed": self._seed,
            "begun": self.begun,
            "books": [[epoch, book] for epoch, book in books.items()],
            "attempts": self.attempts,
            "failures": [[*shard, count] for shard, count in self._failures.items()],
            "failed": self._failed,
            "retrained": self.records_retrained,
            "history": history.state(),
        }

    @classmethod
    def restore(cls, state: dict[str, Any], sources: Sequence[Source], **options: Any) -> Ledger:
        """A ledger that goes on from `state()` or `state_at()`; `options` as for a new one.

        Leases still held do not expire before the event `Resumed`.
        """
        ledger = cls(sources, **options)
        for name, (held, accepted, serial, granted) in state.get("workers", {}).items():
            leases = {lease.attempt: lease for lease in _leases(held)}
            ledger._workers[name] = _Worker(leases, list(_leases(accepted)), serial, granted)
        ledger._deadlines = OrderedDict.fromkeys(state.get("deadlines", ()), float("inf"))
        ledger._load_books(state)
        ledger._failures = {(epoch, shard): count for epoch, shard, count in state["failures"]}
        ledger._failed = state["failed"]
        ledger.records_retrained = state["retrained"]
        ledger._stopped, ledger._announced = state.get("stopped", ""), state.get("announced", False)
        return ledger

    def _load_books(self, state: dict[str, Any]) -> None:
        """Take what is done, and nothing else, from `state`."""
        if (state["data"], state["seed"]) != (self.shards.digest, self._seed):
            raise ElasticError(
                "the saved ledger was kept for other data, another shard size or another shuffling seed",
                remedy="name the same data and options, or begin anew with --restart",
            )
        out: dict[int, list[int]] = {}
        for worker in self._workers.values():
            for lease in worker.held.values():
                out.setdefault(lease.epoch, []).append(lease.shard)
        self.begun = state["begun"]
        self._books = {}
        for epoch, saved in state["books"]:
            self._books[epoch] = self._blank_book(epoch)
            self._books[epoch].load(saved, out.get(epoch, ()))
        complete = self.begun - len(self._books)
        self.records_done = complete * self.shards.records
        self.records_done += sum(self.shards.records_in(book.done()) for book in self._books.values())
        self.attempts = max(self.attempts, state["attempts"])
        self._history = History.restore(state["history"])


def _leases(rows: Iterable[Sequence[int]]) -> Iterable[Lease]:
    return (Lease(*row) for row in rows)

"""The ledger's state machine: events in, effects out; no clock, no thread, no file.

Each record is done exactly once per epoch: a shard is with at most one worker, every report names its
lease, and a report on a lease the worker does not hold is refused. Only `Failed` costs a shard an attempt.
An epoch begins when the one before has nothing left to hand out; what comes back from an earlier one goes
out first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.ledger.book import Book
from elastic_runtime.master.ledger.events import (
    Accepted,
    AllFinished,
    Ask,
    AtWork,
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
    Left,
    NoWorkEver,
    NoWorkNow,
    Progress,
    Refused,
    Renewed,
    Reopened,
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
from elastic_runtime.master.ledger.leases import Leases
from elastic_runtime.master.ledger.shards import Shards


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
        remembered: int | None = None,
    ) -> None:
        """`remembered`: of how many finished shards, at least, it is to be known at which version they were.

        None is all since the last `forget_before`: without that, it is what the state grows by.
        """
        self.shards = Shards(sources, records_per_shard)
        self.epochs = epochs
        self.records_done = 0
        self.records_retrained = 0
        self.attempts = attempts  # the last one given out
        self.begun = 0  # epochs of which a shard was handed out
        self._seed, self._max_failures = seed, max_failures
        self._books: dict[int, Book] = {}  # of the epochs begun and not complete, in order
        self._leases = Leases(lease_seconds)
        self._failures: dict[tuple[int, int], tuple[int, str]] = {}  # how often, and with whom last
        self._history, self._remembered = History(), remembered
        self._stopped = ""
        self._failed = False
        self._announced = False

    # What is so now

    @property
    def finished(self) -> bool:
        """Nothing is left to hand out and nothing is in flight."""
        return not self._failed and not self._leases and (bool(self._stopped) or self._all_done)

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
        return len(self._leases)

    @property
    def open_epochs(self) -> list[int]:
        """The epochs (counted from 0) that were begun and are not complete."""
        return list(self._books)

    def training_workers(self) -> list[str]:
        """The workers that hold a lease."""
        return self._leases.workers()

    def leases(self, worker: str) -> list[Lease]:
        """What a worker holds, oldest (the one in training) first."""
        return self._leases.of(worker)

    def next_deadline(self) -> float | None:
        """When the next worker will be overdue."""
        return self._leases.next_deadline()

    def overdue(self, now: float) -> list[str]:
        """The workers to `Expire`."""
        return self._leases.overdue(now)

    def repeated(self, event: Ask) -> Granted | None:
        """The answer this very question (by its serial) was given before, if it still holds."""
        lease = self._leases.granted(event.worker, event.serial)
        return Granted(event.worker, lease, self.shards[lease.shard]) if lease else None

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
            case AtWork():
                effects = self._renew(event.worker, event.now)
            case Finished():
                effects = self._finished(event)
            case Failed():
                effects = self._shard_failed(event)
            case GivenBack():
                effects = self._given_back(event)
            case WorkerLost():
                effects = [*self._void(event.worker, "worker lost")]
                self._leases.forget(event.worker)
            case Expire():
                effects = [*self._void(event.worker, "no progress")]
            case Resumed():
                self._leases.resume(event.now)
                effects = []
            case StopHandingOut():
                effects = [] if self._stopped else [Stopping(event.reason or "stopped")]
                self._stopped = self._stopped or event.reason or "stopped"
            case Reopened():
                self._failed, self._stopped, self._announced = False, "", False
                self._failures.clear()
                effects = []
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
        if granted := self.repeated(event):
            return [granted]
        if self._failed or self._stopped or self._all_done:
            return [NoWorkEver()]
        epoch = self._epoch_with_work()
        if epoch is None:
            return [NoWorkNow()]
        self.attempts += 1
        shard = self._books[epoch].take(rather_not=self._failed_with(event.worker, epoch))
        lease = Lease(epoch, shard, self.attempts)
        self._leases.grant(event.worker, lease, event.serial, event.now)
        return [Granted(event.worker, lease, self.shards[lease.shard])]

    def _failed_with(self, worker: str, epoch: int) -> set[int]:
        """What another, if one is at work, should try: it may be the worker's place that fails."""
        if not self._failures or self._leases.workers() in ([], [worker]):
            return set()
        tried = self._failures.items()
        return {shard for (begun, shard), (_, last) in tried if begun == epoch and last == worker}

    def _progress(self, event: Progress) -> list[Effect]:
        if not self._leases.holds(event.worker, event.lease):
            return [_refused(event.lease)]
        return self._renew(event.worker, event.now)

    def _renew(self, worker: str, now: float) -> list[Effect]:
        if not self._leases.of(worker):
            return []
        self._leases.renew(worker, now)
        return [Renewed()]

    def _finished(self, event: Finished) -> list[Effect]:
        lease = event.lease
        if self._leases.finished(event.worker, lease):
            return [Accepted(lease, self.shards[lease.shard], duplicate=True)]
        if not self._leases.holds(event.worker, lease):
            return [_refused(lease)]
        self._leases.release(event.worker, lease, event.now, finished=True)
        self._history.add(event.version, lease.epoch, lease.shard)
        if self._remembered is not None:
            self._history.forget_all_but(self._remembered)
        self._failures.pop((lease.epoch, lease.shard), None)
        shard, book = self.shards[lease.shard], self._books[lease.epoch]
        self.records_done += shard.records
        book.finish(lease.shard)
        if book.undone:
            return [Accepted(lease, shard)]
        del self._books[lease.epoch]
        return [Accepted(lease, shard), EpochFinished(lease.epoch)]

    def _shard_failed(self, event: Failed) -> list[Effect]:
        lease = event.lease
        if not self._leases.holds(event.worker, lease):
            return [_refused(lease)]
        attempts = self._failures.get((lease.epoch, lease.shard), (0, ""))[0] + 1
        self._failures[lease.epoch, lease.shard] = attempts, event.worker
        requeued = self._requeue(event.worker, lease, f"failed: {event.error}")
        self._leases.release(event.worker, lease, event.now)
        if not event.fatal and attempts < self._max_failures:
            return [requeued]
        self._failed = True
        return [JobFailed(requeued.shard, attempts, event.error)]

    def _given_back(self, event: GivenBack) -> list[Effect]:
        if not self._leases.holds(event.worker, event.lease):
            return [_refused(event.lease)]
        requeued = self._requeue(event.worker, event.lease, "given back", trained=event.records)
        self._leases.release(event.worker, event.lease, event.now)
        if self._stopped:
            return [Left(requeued.lease, requeued.shard, begun=event.records > 0)]
        return [requeued]

    def _requeue(self, worker: str, lease: Lease, reason: str, *, trained: int | None = None) -> Requeued:
        """The shard is to do again, unless enough is done.

        If not told, one in training counts as trained whole, others not.
        """
        shard = self.shards[lease.shard]
        if trained is None:
            trained = shard.records if self._leases.in_training(worker, lease) else 0
        again = 0 if self._stopped else max(0, min(trained, shard.records))
        self.records_retrained += again
        self._books[lease.epoch].give_back(lease.shard)
        return Requeued(worker, lease, shard, again, reason)

    def _void(self, worker: str, reason: str) -> list[Requeued]:
        requeued = [self._requeue(worker, lease, reason) for lease in self._leases.of(worker)]
        self._leases.void(worker)
        return requeued

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
        before = self.records_done
        voided = self._void_all()
        if event.version < self._history.since:
            self.begun, self._books, self.records_done, self._history = 0, {}, 0, History()
            return [self._rolled_back(voided, before)]
        for epoch, shards in self._history.after(event.version).items():
            self._books[epoch] = self._book(epoch)
            for shard in shards:
                self._books[epoch].give_back(shard)
                self.records_done -= self.shards[shard].records
        self._books = dict(sorted(self._books.items()))
        self._history.undo(after=event.version)
        return [self._rolled_back(voided, before)]

    def _roll_back(self, event: RollBack) -> list[Effect]:
        before = self.records_done
        voided = self._void_all()
        self._load_books(event.state)
        return [self._rolled_back(voided, before)]

    def _void_all(self) -> list[Requeued]:
        voided = [again for worker in self._leases.workers() for again in self._void(worker, "rolled back")]
        self._leases.forget_finished()
        return voided

    def _rolled_back(self, voided: list[Requeued], done_before: int) -> RolledBack:
        undone = max(0, done_before - self.records_done)
        self.records_retrained += undone
        self._stopped = ""  # who stopped the ledger judges anew from the earlier model
        self._announced = False
        return RolledBack(len(voided), undone + sum(requeued.again for requeued in voided))

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
        state = self._state({epoch: book.state() for epoch, book in self._books.items()}, self._history)
        return state | {
            "leases": self._leases.state(),
            "stopped": self._stopped,
            "announced": self._announced,
        }

    def _state(self, books: dict[int, Any], history: History) -> dict[str, Any]:
        return {
            "data": self.shards.digest,
            "seed": self._seed,
            "begun": self.begun,
            "books": [[epoch, book] for epoch, book in books.items()],
            "attempts": self.attempts,
            "failures": [[*shard, *tried] for shard, tried in self._failures.items()],
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
        if "leases" in state:
            ledger._leases.load(state["leases"])
            ledger._stopped = state["stopped"]
        ledger._load_books(state)
        ledger._failures = {(epoch, shard): (count, last) for epoch, shard, count, last in state["failures"]}
        ledger._failed = state["failed"]
        ledger.records_retrained = state["retrained"]
        ledger._announced = state.get("announced", False) and ledger.finished
        return ledger

    def _load_books(self, state: dict[str, Any]) -> None:
        """Take what is done, and nothing else, from `state`."""
        if (state["data"], state["seed"]) != (self.shards.digest, self._seed):
            raise ElasticError(
                "the saved ledger was kept for other data, another shard size or another shuffling seed",
                remedy="name the same data and options, or begin anew: another job_name, or --restart",
            )
        out: dict[int, list[int]] = {}
        for lease in self._leases:
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


def _refused(lease: Lease) -> Refused:
    return Refused(f"attempt {lease.attempt} at shard {lease.shard} is not held by this worker (any more)")

"""The evaluation's state machine: which version is evaluated when, who evaluates which shard, and the result.

Versions come by step (each multiple of `steps`), by time (`throttle` > 0: the first after `start_delay`,
then at most one per throttle), and always at the end, unless the final model was evaluated already. One is
open at a time, the others wait in order, each for the sake of a snapshot: when some wait, training is to
wait for them, and a version beyond the most that may wait is left out. A ledger of one epoch hands out an
evaluation's shards, then a ledger of one shard the result, so whatever befalls a worker is dealt with as in
training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from elastic_runtime.errors import InputError
from elastic_runtime.master import ledger as ledgers
from elastic_runtime.master.evaluation.events import (
    Began,
    Effect,
    EvaluationCancelled,
    EvaluationFinished,
    EvaluationPlanned,
    EvaluationSkipped,
    EvaluationStarted,
    Event,
    FinalModel,
    Granted,
    Kind,
    PartDone,
    ResultReported,
    ResultWanted,
    SnapshotFailed,
    SnapshotFree,
    SnapshotLost,
    SnapshotWanted,
    Tick,
    VersionReached,
)
from elastic_runtime.master.evaluation.states import MetricState, add, in_order, mismatch, pack, unpack
from elastic_runtime.master.ledger import Ledger, Source

_Report = ledgers.Progress | ledgers.Finished | ledgers.Failed | ledgers.GivenBack
_FINAL = 0  # the snapshot that is the model as it is
BEHIND = 4
"""With so many waiting no more training is to be handed out; what workers have in hand is still done."""
MOST_WAITING = 8
"""Each is a copy of the model at whoever holds it: parameter servers keep 16, checkpoints' among them."""
TOO_MANY = "evaluations come due faster than they are done (a larger --evaluation_steps asks for fewer)"
LOST = "its snapshot is lost"


@dataclass(slots=True)
class _Open:
    """The evaluation under way: of its shards, or, once all are in, of its result."""

    version: int
    snapshot: int
    kind: Kind
    ledger: Ledger
    sums: tuple[MetricState, ...] | None = None


class Evaluation:
    """Evaluates versions of the model on the validation data."""

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        records_per_shard: int,
        steps: int = 0,
        start_delay: float = 0.0,
        throttle: float = 0.0,
        max_failures: int = 3,
        lease_seconds: float = 300.0,
    ) -> None:
        if not sum(source.records for source in sources):
            raise InputError("the validation data has no records", remedy="name data with records, or none")
        self.results: dict[int, dict[str, float]] = {}
        self._sources, self._records_per_shard = tuple(sources), records_per_shard
        self._steps, self._start_delay, self._throttle = steps, start_delay, throttle
        self._lease: dict[str, Any] = {"max_failures": max_failures, "lease_seconds": lease_seconds}
        self._lease["remembered"] = 0  # of a version it is all done anew, or nothing
        self._open: _Open | None = None
        self._waiting: list[tuple[int, int]] = []  # version, snapshot
        self._valid: set[int] = set()  # versions with results of the model's present past
        self._due: float | None = None
        self._wanted = False
        self._attempts = 0

    # What is so now

    @property
    def idle(self) -> bool:
        """Nothing is being evaluated or waits for it."""
        return self._open is None and not self._waiting

    @property
    def behind(self) -> bool:
        """So much waits for it that training should wait, too."""
        return len(self._waiting) >= BEHIND

    @property
    def failed(self) -> bool:
        """A shard failed for the last time."""
        return self._open is not None and self._open.ledger.failed

    def snapshots(self) -> list[int]:
        """The versions whose snapshots are still needed."""
        opened = [self._open.snapshot] if self._open and self._open.kind is Kind.SHARD else []
        return [snapshot for snapshot in opened + [s for _, s in self._waiting] if snapshot != _FINAL]

    def next_deadline(self) -> float | None:
        """When to look at `overdue` and send `Tick` again."""
        lease = self._open.ledger.next_deadline() if self._open else None
        due = self._due if self.idle and not self._wanted else None
        return min((time for time in (lease, due) if time is not None), default=None)

    def overdue(self, now: float) -> list[str]:
        """The workers to `Expire`."""
        return self._open.ledger.overdue(now) if self._open else []

    def repeated(self, event: ledgers.Ask) -> Granted | None:
        """The answer this very question (by its serial) was given before, if it still holds."""
        again = self._open and self._open.ledger.repeated(event)
        return _granted(again, self._open) if again and self._open else None

    # What happens

    def handle(self, event: Event) -> list[Effect]:
        """Take one event and tell what follows from it."""
        match event:
            case Began():
                if self._due is None and self._throttle > 0:
                    self._due = event.now + self._start_delay
                return []
            case Tick():
                return self._tick(event)
            case VersionReached():
                return self._version_reached(event)
            case FinalModel():
                return self._final_model(event.version)
            case SnapshotFailed():
                self._wanted = False
                return []
            case SnapshotLost():
                return self._snapshot_lost(event.version)
            case PartDone():
                return self._part_done(event)
            case ResultReported():
                return self._result_reported(event)
            case ledgers.Ask():
                return self._ask(event)
            case ledgers.Progress() | ledgers.Failed() | ledgers.GivenBack():
                return self._report(event)
            case ledgers.WorkerLost() | ledgers.Expire() | ledgers.Reopened() | ledgers.AtWork():
                return self._tell_ledger(event)
            case ledgers.Resumed():
                self._wanted = False  # whoever was to take the snapshot may not know any more
                return self._tell_ledger(event)
            case _:
                assert_never(event)

    # When

    def _tick(self, event: Tick) -> list[Effect]:
        if self._due is None or event.now < self._due or self._wanted or not self.idle:
            return []
        self._wanted, self._due = True, event.now + self._throttle
        return [SnapshotWanted()]

    def _version_reached(self, event: VersionReached) -> list[Effect]:
        version = event.version
        by_step = self._steps > 0 and version > 0 and version % self._steps == 0
        by_time = event.asked and self._wanted
        self._wanted = self._wanted and not event.asked
        if not (by_step or by_time) or version in self.results or self._planned(version):
            return []
        if len(self._waiting) >= MOST_WAITING:
            return [EvaluationSkipped(version, TOO_MANY)]
        return self._plan(version, version)

    def _final_model(self, version: int) -> list[Effect]:
        self._due, self._wanted = None, False
        return [] if version in self._valid or self._planned(version) else self._plan(version, _FINAL)

    def _planned(self, version: int) -> bool:
        opened = [(self._open.version, self._open.snapshot)] if self._open else []
        return any(version == planned for planned, _ in opened + self._waiting)

    def _plan(self, version: int, snapshot: int) -> list[Effect]:
        self._waiting.append((version, snapshot))
        return self._open_next() or [EvaluationPlanned(version)]

    def _open_next(self) -> list[Effect]:
        if self._open or not self._waiting:
            return []
        version, snapshot = self._waiting.pop(0)
        self._open = _Open(version, snapshot, Kind.SHARD, self._ledger(version, Kind.SHARD))
        return [EvaluationStarted(version, snapshot)]

    def _snapshot_lost(self, version: int | None) -> list[Effect]:
        cancelled = [waiting for waiting in self._waiting if version in (None, waiting[1])]
        self._waiting = [waiting for waiting in self._waiting if waiting not in cancelled]
        if self._open and self._open.kind is Kind.SHARD and version in (None, self._open.snapshot):
            cancelled.insert(0, (self._open.version, self._open.snapshot))
            self._close()
        if version is None:
            self._tell_ledger(ledgers.UndoAfter(-1))  # no report of a result under way will be heard
            self._valid.clear()
            self._wanted = False
        effects: list[Effect] = [
            EvaluationCancelled(lost) if version is None else EvaluationSkipped(lost, LOST)
            for lost, _ in cancelled
        ]
        return effects + self._open_next()

    # Shards and results

    def _ledger(self, version: int, kind: Kind, state: dict[str, Any] | None = None) -> Ledger:
        sources, size = self._sources, self._records_per_shard
        if kind is Kind.RESULT:
            sources, size = (Source(f"metrics of version {version}", 1),), 1
        options = {**self._lease, "records_per_shard": size, "attempts": self._attempts}
        return Ledger.restore(state, sources, **options) if state else Ledger(sources, **options)

    def _close(self) -> None:
        """Attempts go on counting, so that no report on a closed evaluation is taken for one on a later."""
        if self._open:
            self._attempts = self._open.ledger.attempts
        self._open = None

    def _ask(self, event: ledgers.Ask) -> list[Effect]:
        return self._tell_ledger(event) if self._open else [ledgers.NoWorkEver()]

    def _part_done(self, event: PartDone) -> list[Effect]:
        opened = self._open
        if opened is None or opened.kind is not Kind.SHARD:
            return [_refused(event.lease)]
        if error := mismatch(opened.sums, event.states):
            return self.handle(ledgers.Failed(event.worker, event.lease, error, fatal=False, now=event.now))
        done = ledgers.Finished(event.worker, event.lease, opened.version, event.now)
        effects = self._report(done)
        if any(isinstance(effect, ledgers.Accepted) and not effect.duplicate for effect in effects):
            opened.sums = add(opened.sums, event.states)
        if opened.ledger.finished:
            self._attempts = opened.ledger.attempts
            opened.kind, opened.ledger = Kind.RESULT, self._ledger(opened.version, Kind.RESULT)
            effects.append(ResultWanted(opened.version))
            effects += [SnapshotFree(opened.snapshot)] if opened.snapshot != _FINAL else []
        return effects

    def _result_reported(self, event: ResultReported) -> list[Effect]:
        opened = self._open
        if opened is None or opened.kind is not Kind.RESULT:
            return [_refused(event.lease)]
        done = ledgers.Finished(event.worker, event.lease, opened.version, event.now)
        effects = self._report(done)
        if opened.ledger.finished:
            metrics = in_order(event.metrics, opened.sums or ())
            self.results[opened.version] = metrics
            self._valid.add(opened.version)
            self._close()
            effects.append(EvaluationFinished(opened.version, metrics))
            effects += self._open_next()
        return effects

    def _report(self, event: _Report) -> list[Effect]:
        """A report on a lease, whose epoch is the version outside and 0 in the ledger."""
        if self._open is None or self._open.version != event.lease.epoch:
            return [_refused(event.lease)]
        return self._tell_ledger(replace(event, lease=event.lease._replace(epoch=0)))

    def _tell_ledger(self, event: ledgers.Event) -> list[Effect]:
        """Let the open evaluation's ledger take the event; what follows, in our terms."""
        opened = self._open
        if opened is None:
            return []
        return [told for effect in opened.ledger.handle(event) for told in _translate(effect, opened)]

    # State

    def state(self) -> dict[str, Any]:
        """All of it, as JSON-able values."""
        opened = self._open and {
            "version": self._open.version,
            "snapshot": self._open.snapshot,
            "kind": self._open.kind.value,
            "ledger": self._open.ledger.state(),
            "sums": None if self._open.sums is None else pack(self._open.sums),
        }
        return {
            "open": opened,
            "waiting": list(self._waiting),
            "results": list(self.results.items()),
            "valid": sorted(self._valid),
            "due": self._due,
            "wanted": self._wanted,
            "attempts": self._attempts,
        }

    @classmethod
    def restore(cls, state: dict[str, Any], sources: Sequence[Source], **options: Any) -> Evaluation:
        """An evaluation that goes on from `state`; `options` as for a new one."""
        evaluation = cls(sources, **options)
        evaluation._waiting = [(version, snapshot) for version, snapshot in state["waiting"]]
        evaluation.results = dict(state["results"])
        evaluation._valid = set(state["valid"])
        evaluation._due, evaluation._wanted = state["due"], state["wanted"]
        evaluation._attempts = state["attempts"]
        if opened := state["open"]:
            version, kind = opened["version"], Kind(opened["kind"])
            ledger = evaluation._ledger(version, kind, opened["ledger"])
            sums = None if opened["sums"] is None else unpack(opened["sums"])
            evaluation._open = _Open(version, opened["snapshot"], kind, ledger, sums)
        return evaluation


def _refused(lease: ledgers.Lease) -> ledgers.Refused:
    return ledgers.Refused(
        f"attempt {lease.attempt} at an evaluation of version {lease.epoch} that is not open"
    )


def _granted(effect: ledgers.Granted, opened: _Open) -> Granted:
    lease = effect.lease._replace(epoch=opened.version)
    states = opened.sums or () if opened.kind is Kind.RESULT else ()
    return Granted(effect.worker, opened.kind, lease, effect.shard, opened.version, opened.snapshot, states)


def _translate(effect: ledgers.Effect, opened: _Open) -> list[Effect]:
    match effect:
        case ledgers.Granted():
            return [_granted(effect, opened)]
        case ledgers.Accepted() | ledgers.Requeued():
            return [replace(effect, lease=effect.lease._replace(epoch=opened.version))]
        case ledgers.EpochFinished() | ledgers.AllFinished() | ledgers.RolledBack():
            return []
        case ledgers.Stopping() | ledgers.Left():  # an evaluation is never told to stop
            return []
        case _:
            return [effect]

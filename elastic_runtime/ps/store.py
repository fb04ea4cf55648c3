"""One server's part of the model, and all that may happen to it: a state machine without socket or clock.

Whoever calls holds `lock`. `push` answers at once or, where gradients wait for each other, with None: then
`outcome` tells later. A push is applied whole or not at all, and once however often it is sent. Snapshots
are kept by version.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from elastic_runtime.ps.barrier import Barrier, Line, Senders
from elastic_runtime.ps.copies import Copies, Copy, pieces
from elastic_runtime.ps.model import Each, Model
from elastic_runtime.ps.optimizers import Update
from elastic_runtime.ps.pushes import Merge, Outcome, Push, PushId, Sum
from elastic_runtime.ps.rows import RowGradients, TableState
from elastic_runtime.rpc.ps_pb2 import Verdict

log = logging.getLogger(__name__)
MOST_SNAPSHOTS = 16


@dataclass(frozen=True, slots=True)
class Settings:
    """What this server is told at its start."""

    index: int = 0
    parts: int = 1
    use_async: bool = False
    grads_to_wait: int = 1
    sync_version_tolerance: int = 0
    lr_staleness_modulation: bool = False
    evaluation_steps: int = 0
    checkpoint_steps: int = 0
    wait_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The model at one version; `slots` is None if it was taken for evaluation only."""

    version: int
    era: int
    step: int
    weights: Copy
    state: Copy
    slots: Mapping[str, Copy] | None
    tables: Mapping[str, TableState]
    merge: Merge | None = None
    """How the version was made, unless it was brought or restored."""


class Store:
    """A part of the model with its version, slots, snapshots and the pushes that wait."""

    def __init__(self, settings: Settings, lock: threading.RLock, each: Each = map) -> None:
        self.settings = settings
        self.model: Model | None = None
        self.version, self.era, self.step = 0, 0, 0
        self.snapshots: dict[int, Snapshot] = {}
        self.reached: list[int] = []
        """Versions whose snapshot was taken since the caller last emptied this list."""
        self.counts = {"applied": 0, "stale": 0, "nonfinite": 0}
        self.senders = Senders()
        self._merge: Merge | None = None  # that made the present version
        self._unwanted: set[int] = set()  # versions to come that need no snapshot
        self._copies, self._each = Copies(lock), each
        self._answers: dict[PushId, Outcome | None] = {}
        self._newest: dict[str, PushId] = {}
        self._sums: dict[int, Sum] = {}
        self._forget_waiting()

    def hold(self, model: Model, *, version: int, era: int, step: int = 0) -> None:
        """Begin anew with this model; pushes that wait are void, and so are snapshots."""
        self._copies.before_change()
        self.model, self.version, self.era, self.step = model, version, era, step
        self.snapshots.clear()
        self._unwanted.clear()
        self._merge = None
        self._forget_waiting()

    def push(self, push: Push, now: float) -> Outcome | None:
        """Take a push; None if it waits for others."""
        if push.id in self._answers:
            return self._answers[push.id]
        refusal = self.precheck(push) or self._check_content(push)
        if refusal is not None:
            return refusal
        if self.settings.use_async:
            return self._apply_alone(push)
        if push.merge is None:
            self._sum(0).add(push)
            self._remember(push.id)
            self._barrier.arrive(push.id.worker, now)
        elif push.merge.version <= self.version:
            return self._apply_late(push, push.merge)
        else:
            self._sum(push.merge.version).add(push)
            self._remember(push.id)
            self._line.arrive(push.merge.version, push.merge.workers, push.id.worker, now)
        self.advance(now)
        return self._answers[push.id]

    def outcome(self, push: PushId) -> Outcome | None:
        """What became of a push that waited; None while it waits still."""
        gone = Outcome(Verdict.WRONG_ERA, "the model went back to an earlier state while the push waited")
        return self._answers.get(push, gone)

    def set_senders(self, generation: int, workers: Collection[str], now: float) -> None:
        """The master says who trains."""
        if self.senders.replace(generation, workers):
            self.advance(now)

    def expect(self, version: int, workers: Collection[str] | None, now: float) -> None:
        """Server 0 is at this version, by the pushes of these workers (None: it is not known of whom).

        Where nobody is left to bring what this server lacks of it, the model held here is that version as
        it is: a worker may be lost when it has told server 0 of its gradient and not yet the others.
        """
        if self.settings.index > 0 and version > self.version:
            self._line.expect(version, workers, now)
            self.advance(now)

    def advance(self, now: float) -> None:
        """Apply what waits and need not wait any longer."""
        if self._barrier.enough(self.senders, now):
            self._say_if_overdue(self._barrier.deadline, now)
            merge = Merge(self.version + 1, tuple(self._barrier.open()))
            self._apply_sum(self._sums.pop(0), merge)
        deadline = self._line.deadline
        while (version := self._line.next(self.version, self.senders, now)) is not None:
            self._say_if_overdue(deadline, now)
            waited = self._sums.pop(version, None)
            if waited is None:
                log.info("version %d: no gradient of it came before its workers were lost", version)
                self._reach(version)
            else:
                self._reach(version - 1)  # there may have been such versions before it
                self._apply_sum(waited, Merge(version, tuple(push.worker for push in waited.ids)))
            deadline = self._line.deadline

    @property
    def deadline(self) -> float:
        """When `advance` is to be called next though nothing came."""
        return min(self._barrier.deadline, self._line.deadline)

    @property
    def waiting(self) -> int:
        """Pushes that wait for others."""
        return sum(len(waited.ids) for waited in self._sums.values())

    def present(self, *, slots: bool = False, tables: bool = False, label: int | None = None) -> Snapshot:
        """The model as it is now, for a reader that takes its time."""
        model = self._model
        copies = {name: self._copies.of(slot) for name, slot in model.slots.items()} if slots else None
        version = self.version if label is None else label
        weights, state = self._copies.of(model.weights), self._copies.of(model.state)
        rows = {name: table.state(slots=slots) for name, table in model.tables.items()} if tables else {}
        return Snapshot(version, self.era, self.step, weights, state, copies, rows, self._merge)

    def snapshot(self, *, slots: bool, label: int | None = None) -> Snapshot:
        """Keep the model as it is now, under its version or another."""
        taken = self.present(slots=slots, tables=True, label=label)
        self.snapshots[taken.version] = taken
        while len(self.snapshots) > MOST_SNAPSHOTS:
            dropped = self._least_needed()
            log.warning("more than %d snapshots wait: dropping version %d", MOST_SNAPSHOTS, dropped)
            del self.snapshots[dropped]
        return taken

    def drop(self, version: int) -> None:
        """Forget a snapshot. Server 0 may be further: then one that is still to come here is not taken."""
        self.snapshots.pop(version, None)
        if version > self.version:
            self._unwanted.add(version)

    def _least_needed(self) -> int:
        """Evaluation goes by version: what is for it alone goes from the newest, but for the one just taken.

        Of checkpoints the newest is worth the most.
        """
        *before, _ = self.snapshots
        of_evaluation = [version for version in before if self.snapshots[version].slots is None]
        return of_evaluation[-1] if of_evaluation else before[0]

    @property
    def _model(self) -> Model:
        assert self.model is not None
        return self.model

    def _forget_waiting(self) -> None:
        self._barrier = Barrier(self.settings.grads_to_wait, self.settings.wait_seconds)
        self._line = Line(self.settings.wait_seconds)
        self._answers.clear()
        self._newest.clear()
        self._sums.clear()

    def precheck(self, push: Push) -> Outcome | None:
        """Why this push cannot be taken, as far as can be told without its gradient."""
        if self.model is None:
            return Outcome(Verdict.NOT_INITIALISED, "no worker has brought the model yet")
        is_ahead = push.version > self.version and self.settings.index == 0  # others may not be so far
        if push.era != self.era or is_ahead:
            reason = f"era {push.era}, version {push.version}; here is era {self.era}, version {self.version}"
            return Outcome(Verdict.WRONG_ERA, reason)
        leads = self.settings.use_async or self.settings.index == 0
        if leads is not (push.merge is None):
            return Outcome(Verdict.MISFIT, "server 0 decides on synchronous pushes, the others follow")
        if push.merge is not None and push.id.worker not in push.merge.workers:
            return Outcome(Verdict.MISFIT, "the push is not among those that were merged")
        if not (math.isfinite(push.learning_rate) and push.learning_rate >= 0):
            return Outcome(Verdict.NONFINITE, f"learning rate {push.learning_rate}")
        if push.id not in self._answers and self._is_stale(push):
            self.counts["stale"] += 1
            return Outcome(Verdict.STALE, f"version {push.version}; here is version {self.version}")
        return None

    def _is_stale(self, push: Push) -> bool:
        before = self._newest.get(push.id.worker)
        if before and before.incarnation == push.id.incarnation and push.id.seq < before.seq:
            return True
        behind = self.version - push.version > self.settings.sync_version_tolerance
        return behind and not self.settings.use_async and push.merge is None

    def _check_content(self, push: Push) -> Outcome | None:
        for what, chunks, buffer in (
            ("gradient", push.gradient, self._model.weights),
            ("state", push.delta, self._model.state),
        ):
            sizes = [piece.stop - piece.start for piece in pieces(buffer.size)]
            if [chunk.size for chunk in chunks] != sizes:
                given = sum(chunk.size for chunk in chunks)
                return Outcome(Verdict.MISFIT, f"{what} of {given} values; here are {buffer.size}")
        for rows in push.rows:
            misfit = self._misfit(rows)
            if misfit:
                return Outcome(Verdict.MISFIT, f"table {rows.table!r}: {misfit}")
        if not push.finite:
            self.counts["nonfinite"] += 1
            return Outcome(Verdict.NONFINITE, "gradient or state holds NaN or infinity")
        return None

    def _misfit(self, rows: RowGradients) -> str:
        table = self._model.tables.get(rows.table)
        if table is None:
            return f"there is none of this name; known: {', '.join(self._model.tables) or 'none'}"
        if rows.values.shape != (rows.ids.size, table.spec.dimension):
            return (
                f"gradients of shape {rows.values.shape} for {rows.ids.size} rows of {table.spec.dimension}"
            )
        if (rows.ids % self.settings.parts != self.settings.index).any():
            return f"ids that do not belong on server {self.settings.index} of {self.settings.parts}"
        return ""

    def _remember(self, push: PushId) -> None:
        before = self._newest.get(push.worker)
        if before is not None and self._answers.get(before) is not None:
            del self._answers[before]
        self._newest[push.worker] = push
        self._answers[push] = None
        self.senders.seen(push.worker)

    def _answer(self, push: PushId, outcome: Outcome) -> Outcome:
        if self._newest.get(push.worker) == push:
            self._answers[push] = outcome
        else:
            self._answers.pop(push, None)
        return outcome

    def _sum(self, version: int) -> Sum:
        return self._sums.setdefault(version, Sum())

    def _apply_alone(self, push: Push) -> Outcome:
        behind = self.version - push.version
        modulation = max(1, behind) if self.settings.lr_staleness_modulation else 1
        self._change(Sum.of(push), push.learning_rate / modulation, 1)
        self._remember(push.id)
        merge = Merge(self.version + 1, (push.id.worker,))
        self._reach(merge.version, merge)
        return self._answer(push.id, Outcome(Verdict.ACCEPTED, merge=merge))

    def _apply_late(self, push: Push, merge: Merge) -> Outcome:
        """The version was made without waiting for this push any longer: it is added to a later one."""
        self._change(Sum.of(push), push.learning_rate, len(merge.workers))
        self._remember(push.id)
        return self._answer(push.id, Outcome(Verdict.ACCEPTED, merge=merge))

    def _apply_sum(self, waited: Sum, merge: Merge) -> None:
        rate = sum(waited.rates) / len(waited.rates)
        self._change(waited, rate, len(merge.workers))
        self._reach(merge.version, merge)
        for push in waited.ids:
            self._answer(push, Outcome(Verdict.ACCEPTED, merge=merge))

    def _change(self, changes: Sum, rate: float, count: int) -> None:
        rows = self._model.make_rows(changes.rows)
        self._copies.before_change()
        self.step += 1
        update = Update(self.step, rate, 1 / count)
        self._model.apply(update, changes.gradient, changes.delta, self._each)
        self._model.apply_rows(update, rows)
        self.counts["applied"] += 1

    def _reach(self, version: int, merge: Merge | None = None) -> None:
        """The model is at this version, and as it is at those on the way, if any was skipped."""
        checkpoint, evaluation = self.settings.checkpoint_steps, self.settings.evaluation_steps
        for reached in range(self.version + 1, version + 1):
            self.version, self._merge = reached, merge
            saves = checkpoint > 0 and reached % checkpoint == 0
            if reached in self._unwanted:
                self._unwanted.remove(reached)
            elif saves or (evaluation > 0 and reached % evaluation == 0):
                self.snapshot(slots=saves)
                self.reached.append(reached)
        self._line.reached(version)

    def _say_if_overdue(self, deadline: float, now: float) -> None:
        if now >= deadline:
            waited = self.settings.wait_seconds
            log.warning("version %d: not every gradient came in %g s; going on", self.version + 1, waited)

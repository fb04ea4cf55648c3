"""A store shared by many callers: each call takes the lock, waits its turn if it must, and never for ever.

Pushes that wait for others block their caller here; so does a pull of a version that is still to come. What
a caller has heard of server 0's version is told to the store, lest it waits for pushes of the lost.
Refusals are raised as `Refused`. Snapshots that were reached are told to `on_snapshot` outside the lock.
"""

from __future__ import annotations

import logging
import os
import pathlib
import threading
import time
from collections.abc import Callable, Collection
from concurrent import futures

import numpy as np

from elastic_runtime.errors import ElasticError
from elastic_runtime.ps import checkpoint, optimizers
from elastic_runtime.ps.model import Model
from elastic_runtime.ps.partfile import PartState
from elastic_runtime.ps.pushes import Merge, Outcome, Push
from elastic_runtime.ps.store import Settings, Snapshot, Store
from elastic_runtime.rpc.layout import part
from elastic_runtime.rpc.ps_pb2 import Verdict

log = logging.getLogger(__name__)
_MOST_CORES = 8
_LONGEST = threading.TIMEOUT_MAX / 2
_ENDING = Outcome(Verdict.ENDING, "the parameter server is ending")


class Refused(Exception):
    """The request cannot be met; nothing was changed."""

    def __init__(self, verdict: Verdict, reason: str) -> None:
        self.verdict, self.reason = verdict, reason
        super().__init__(reason)


class Shard:
    """What a parameter server does, for callers on many threads."""

    def __init__(self, settings: Settings, on_snapshot: Callable[[int], None] = lambda _: None) -> None:
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        cores = min(_MOST_CORES, len(os.sched_getaffinity(0)))
        self._arithmetic = futures.ThreadPoolExecutor(cores, thread_name_prefix="arithmetic")
        self.store = Store(settings, lock, self._arithmetic.map if cores > 1 else map)
        self._settings, self._on_snapshot = settings, on_snapshot
        self._ending = False
        self._restored: pathlib.Path | None = None  # the checkpoint that the model held here is of

    def initialize(self, model: Model, *, version: int, era: int) -> bool:
        """Take a worker's model; False if there is one already, which must be alike."""
        with self._changed:
            held = self.store.model
            if held is not None and era <= self.store.era:
                self._require_era(era)
                self._require_alike(held, model)
                return False
            self.store.hold(model, version=version, era=era)
            self._restored = None
            self._changed.notify_all()
            log.info("initialised: %d values, version %d, era %d", model.weights.size, version, era)
            return True

    def join(self, model: Model, *, era: int) -> None:
        """A worker is about to train the model held here, which must be like its own but for the values."""
        with self._changed:
            held = self._require_model()
            self._require_era(era)
            self._require_alike(held, model)

    def push(self, push: Push) -> Outcome:
        """Take a push and answer when its version is applied."""
        with self._changed:
            if self._ending:
                return _ENDING
            outcome = self.store.push(push, time.monotonic())
            self._changed.notify_all()
            while outcome is None and not self._ending:
                self._changed.wait(max(0.0, self.store.deadline - time.monotonic()))
                self._advance()
                outcome = self.store.outcome(push.id)
            reached, self.store.reached = self.store.reached, []
        for version in reached:
            self._on_snapshot(version)
        return outcome or _ENDING

    def precheck(self, push: Push) -> Outcome | None:
        """What a push would be refused for, seen before its gradient has come."""
        with self._changed:
            return self.store.precheck(push)

    def pull(
        self, *, era: int, min_version: int, snapshot: int, wait: float, merge: Merge | None = None
    ) -> Snapshot:
        """The model at its present version, once that is `min_version`, or at a snapshot.

        `merge` is how server 0 made `min_version`, if the caller knows.
        """
        with self._changed:
            if snapshot:
                return self._await_snapshot(snapshot, wait, era)
            if merge is not None and merge.version == min_version:
                self._expect(min_version, era, merge.workers)
            self._await(lambda: self._is_at(min_version, era), wait, f"version {min_version}")
            self._require_era(era)
            return self.store.present()

    def pull_rows(self, table: str, ids: np.ndarray, *, era: int, snapshot: int) -> np.ndarray:
        """Rows of a table, as they are now or at a snapshot; an id without a row reads as its first value."""
        with self._changed:
            model = self._require_model()
            if table not in model.tables:
                raise Refused(
                    Verdict.MISFIT, f"no table {table!r}; known: {', '.join(model.tables) or 'none'}"
                )
            if not snapshot:
                self._require_era(era)
                return model.tables[table].pull(ids)
            taken = self._await_snapshot(snapshot, self._settings.wait_seconds, era)
            return model.tables[table].pull(ids, taken.tables[table])

    def snapshot(self, label: int, *, era: int | None = None, merge: Merge | None = None) -> Snapshot:
        """Take a snapshot now, or under another's version once that is reached here too.

        It was reached in that era, and made so, if the caller knows.
        """
        with self._changed:
            if label and not self._settings.use_async:
                is_known = merge is not None and merge.version == label
                self._expect(label, era, merge.workers if merge and is_known else None)
                self._await(lambda: self._is_at(label, era), self._settings.wait_seconds, f"version {label}")
            self._require_model()
            if era is not None:
                self._require_era(era)
            return self.store.snapshot(slots=True, label=label or None)

    def drop_snapshot(self, version: int, era: int | None = None) -> None:
        """Forget a snapshot; no matter if it is not there. One of that era need not be taken, either."""
        with self._changed:
            if era is None:
                self.store.snapshots.pop(version, None)
            elif era == self.store.era:
                self.store.drop(version)

    def set_senders(self, generation: int, workers: Collection[str]) -> None:
        """The master says who trains; pushes that waited for others may wait no longer."""
        with self._changed:
            self.store.set_senders(generation, workers, time.monotonic())
            self._changed.notify_all()

    def new_master(self) -> None:
        """A master is being joined, perhaps another than before."""
        with self._changed:
            self.store.senders.new_master()

    def save(self, directory: pathlib.Path, snapshot: int, era: int | None = None) -> int:
        """Write this part of a checkpoint while training goes on; the version written."""
        with self._changed:
            if snapshot:
                taken = self._await_snapshot(snapshot, self._settings.wait_seconds, era)
            else:
                self._require_model()
                taken = self.store.present(slots=True, tables=True)
            model = self._require_model()
        if taken.slots is None:
            raise Refused(Verdict.NO_SNAPSHOT, f"the snapshot of version {snapshot} is for evaluation only")
        state = PartState(
            layout=model.layout,
            optimizer=model.config,
            version=taken.version,
            weights=taken.weights,
            state=taken.state,
            slots=taken.slots,
            tables=taken.tables,
            era=taken.era,
            step=taken.step,
            seed=model.seed,
        )
        checkpoint.write_part(directory, self._settings.index, self._settings.parts, state)
        return taken.version

    def restore(self, directory: pathlib.Path, era: int) -> int:
        """Take this server's part of a checkpoint, whoever wrote it; the version read."""
        state = checkpoint.read_part(directory, self._settings.index, self._settings.parts)
        model = Model.restored(state)
        with self._changed:
            if self.store.model is not None and era < self.store.era:
                raise Refused(Verdict.WRONG_ERA, f"era {era}; here is era {self.store.era}")
            self.store.hold(model, version=state.version, era=era, step=state.step)
            self._restored = directory
            self._changed.notify_all()
        log.info("restored version %d from %s, era %d", state.version, directory, era)
        return state.version

    def end(self) -> None:
        """Refuse those who wait, and whoever comes later."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
            self._arithmetic.shutdown()

    def part_of(self, count: int) -> slice:
        """The range of a buffer of this many values that lies here."""
        return slice(*part(count, self._settings.index, self._settings.parts))

    def _advance(self) -> None:
        """Time has passed: let go on what waited long enough, and say so to the others who wait."""
        before = self.store.version
        self.store.advance(time.monotonic())
        if self.store.version != before:
            self._changed.notify_all()

    def _expect(self, version: int, era: int | None, workers: Collection[str] | None = None) -> None:
        if self.store.model is not None and era == self.store.era:
            self.store.expect(version, workers, time.monotonic())
            self._changed.notify_all()

    def _await_snapshot(self, version: int, wait: float, era: int | None) -> Snapshot:
        snapshots = self.store.snapshots
        self._expect(version, era)
        self._await(lambda: version in snapshots or self._is_at(version, era), wait, f"snapshot {version}")
        if era is not None:
            self._require_era(era)
        if version not in snapshots:
            raise Refused(Verdict.NO_SNAPSHOT, f"no snapshot of version {version} is kept")
        return snapshots[version]

    def _is_at(self, version: int, era: int | None = None) -> bool:
        return self.store.version >= version or era not in (None, self.store.era)

    def _await(self, condition: Callable[[], bool], wait: float, what: str) -> None:
        self._require_model()
        until = time.monotonic() + min(wait, _LONGEST)
        while not (self._ending or condition()):
            now = time.monotonic()
            if now >= until:
                raise Refused(Verdict.TIMED_OUT, f"{what} did not come in {wait:g} s")
            self._changed.wait(max(0.0, min(until, self.store.deadline) - now))
            self._advance()
        self._require_model()

    def _require_model(self) -> Model:
        if self._ending:
            raise Refused(_ENDING.verdict, _ENDING.reason)
        if self.store.model is None:
            raise Refused(Verdict.NOT_INITIALISED, "no worker has brought the model yet")
        return self.store.model

    def _require_alike(self, held: Model, offered: Model) -> None:
        difference = _difference(held, offered)
        if difference and self._restored is not None:
            remedy = "name a checkpoint of this model by --checkpoint_dir_for_init, or none"
            difference = f"is that of {self._restored} and {difference}: {remedy}"
        if difference:
            raise Refused(Verdict.MISFIT, f"the model held here {difference}")

    def _require_era(self, era: int) -> None:
        if era != self.store.era:
            raise Refused(Verdict.WRONG_ERA, f"era {era}; here is era {self.store.era}")


def _difference(held: Model, offered: Model) -> str:
    if held.layout.digest != offered.layout.digest:
        return "has other variables"
    if tuple(held.specs) != tuple(offered.specs):
        return f"has tables {held.specs}, not {offered.specs}"
    if optimizers.from_config(held.config) != offered.optimizer:
        return f"is trained with {held.optimizer}, not {offered.optimizer}"
    return ""


def refusal(error: ElasticError | Refused | MemoryError) -> Refused:
    """Any understandable error as an answer."""
    if isinstance(error, MemoryError):
        return Refused(Verdict.FAILED, f"not enough memory: {error}")
    return error if isinstance(error, Refused) else Refused(Verdict.FAILED, str(error))

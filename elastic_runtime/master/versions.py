"""What is due as the model's version goes up, and what an era of the model begins with.

Evaluations and checkpoints are of exact versions: whoever holds the model keeps a snapshot at each multiple
of their steps. Here it is known which snapshots are still needed and for what, and the ledger goes back
when the model does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from elastic_runtime.errors import ElasticError
from elastic_runtime.master import evaluation, ledger
from elastic_runtime.master.checkpoints import Checkpoints
from elastic_runtime.master.home import HeldHome, Origin, ReplicatedHome, ServedHome, StaticHome, WorldTerms
from elastic_runtime.master.job import EVALUATION, TRAINING, Job
from elastic_runtime.master.members import Members
from elastic_runtime.master.narrator import Narrator
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.spec.job import Kind

log = logging.getLogger(__name__)

ON_THE_WAY = 3
"""Of one purpose so many snapshots are kept at most: one in use, one due, and one that is just let go."""

Tell = Callable[[str, Any], list[Any]]
AnyHome = StaticHome | HeldHome | ReplicatedHome | ServedHome


class Versions:
    """The model's course: where it lives, how far it is, what is kept of it."""

    def __init__(
        self,
        job: Job,
        *,
        tell: Tell,
        tasks: Tasks,
        narrator: Narrator,
        members: Members,
        token: str,
        durable: Callable[[], Awaitable[None]],
        news: Callable[[], None],
        fail: Callable[[str], None],
        host: str,
    ) -> None:
        self._job, self._tell, self._tasks, self._narrator = job, tell, tasks, narrator
        self._durable, self._news, self._fail = durable, news, fail
        self._needed: dict[int, set[str]] = {}  # snapshots, and what for
        self._senders: frozenset[str] | None = None  # as the model's holders were told; None: not yet
        spec = job.spec
        self.checkpoints = Checkpoints(
            Path(spec.checkpoint_dir).absolute(),
            run=lambda: job.run,
            era=lambda: job.era,
            newest=lambda: job.saved_version,
            keep=spec.keep_checkpoint_max,
            initial=spec.checkpoint_dir_for_init,
            ledger_at=self._ledger_at,
            saved=self._saved,
            passed_over=lambda version: self.free(version, "checkpoint"),
        )
        self.checkpoints.tidy()
        self.home = self._make_home(members, token, host)

    def _ledger_at(self, version: int) -> Mapping[str, Any]:
        state: Mapping[str, Any] = self._job.machines[TRAINING].state_at(version)
        return state

    def _make_home(self, members: Members, token: str, host: str) -> AnyHome:
        spec = self._job.spec
        if spec.kind is not Kind.TRAINING:
            return StaticHome(spec.checkpoint_dir_for_init)
        if spec.distribution_strategy == "Local":
            find, begin = self.checkpoints.find, self._begin_era
            return HeldHome(
                members,
                tasks=self._tasks,
                find_checkpoint=find,
                begin_era=begin,
                ending=lambda: self._job.complete or self._job.fleet.ending,
            )
        if spec.distribution_strategy == "AllreduceStrategy":
            terms = WorldTerms(
                wanted=spec.num_workers or 1,
                smallest=max(1, min(spec.min_workers, spec.num_workers)),
                host=host,
                told=self._narrator.world,
                failed=self._fail,
                began=self._begin_world,
                newest=lambda: self._job.world,
                settled=lambda: self._job.settled,
                ending=lambda: self._job.complete or self._job.fleet.ending,
                by_hand=not spec.num_workers,
            )
            find, begin = self.checkpoints.find, self._begin_era
            return ReplicatedHome(members, terms, tasks=self._tasks, find_checkpoint=find, begin_era=begin)
        return ServedHome(
            spec.num_ps_pods or 1,
            members=members,
            token=token,
            tasks=self._tasks,
            find_checkpoint=self.checkpoints.find,
            begin_era=self._begin_era,
        )

    def resume(self) -> None:
        """After a restart of the master: the era goes on."""
        if self._job.evaluation is not None:
            self._needed = {version: {"evaluation"} for version in self._job.evaluation.snapshots()}
        if self._job.era and not isinstance(self.home, StaticHome):
            self.home.resume(self._job.era, self._job.origin)
            self.senders_changed()
            self._tasks.spawn(self._catch_up(self.home, self._job.era, self._job.version))

    async def _catch_up(self, home: HeldHome | ReplicatedHome | ServedHome, era: int, version: int) -> None:
        """What the last master had not come to: a checkpoint that is due, and snapshots to be let go."""
        await home.back()
        job, spec = self._job, self._job.spec
        if era != job.era:
            return  # all snapshots of the one before are gone
        saved = max(job.saved_version or 0, job.origin.version)
        due = _multiples(spec.checkpoint_steps, saved, version)[-1:]
        if due and not _multiples(spec.checkpoint_steps, version, job.version):  # else that one is asked for
            self._needed.setdefault(due[0], set()).add("checkpoint")
            self.checkpoints.request(due[0], home)
        kept = {
            *_multiples(spec.checkpoint_steps, 0, version)[-ON_THE_WAY:],
            *_multiples(spec.evaluation_steps, 0, version)[-ON_THE_WAY:],
            *list(job.evaluation.results if job.evaluation else ())[-ON_THE_WAY:],
        }
        for snapshot in sorted(kept - self._needed.keys()):
            await home.drop_snapshot(snapshot)

    def reached(self, version: int) -> None:
        """The model is at this version: open what is due by now."""
        before, spec = self._job.version, self._job.spec
        if version <= before:
            return
        self._job.reach(version)
        saves = _multiples(spec.checkpoint_steps, before, version)
        for due in saves:
            self._needed.setdefault(due, set()).add("checkpoint")  # first: an evaluation may free it at once
        if self._job.evaluation is not None:
            for due in _multiples(spec.evaluation_steps, before, version):
                self._keep_to_evaluate(due, evaluation.VersionReached(due))
        for due in saves:
            self.checkpoints.request(due, self.home)
        self._stop_if_trained()

    def _stop_if_trained(self) -> None:
        most = self._job.spec.max_step
        if most and self._job.version >= most:
            self._tell(TRAINING, ledger.StopHandingOut(f"max_step {most} reached"))

    def free(self, version: int, use: str) -> None:
        """A snapshot is needed no more for this use; when for none, its holder may forget it."""
        uses = self._needed.get(version)
        if uses is not None:
            uses.discard(use)
            if not uses:
                del self._needed[version]
                self._tasks.spawn(self.home.drop_snapshot(version))

    async def snapshot_to_evaluate(self) -> None:
        """It is time for an evaluation: of the model as it is now."""
        try:
            version = await self.home.snapshot()
        except ElasticError as problem:
            log.warning("no snapshot could be taken for an evaluation: %s", problem)
            self._tell(EVALUATION, evaluation.SnapshotFailed())
            return
        self._keep_to_evaluate(version, evaluation.VersionReached(version, asked=True))

    def _keep_to_evaluate(self, version: int, reached: evaluation.VersionReached) -> None:
        """There is a snapshot; if it was evaluated before the model went back, it is let go at once."""
        self._needed.setdefault(version, set()).add("evaluation")
        self._tell(EVALUATION, reached)
        judge = self._job.evaluation
        if judge is None or version not in judge.snapshots():
            self.free(version, "evaluation")

    def senders_changed(self) -> None:
        """Parameter servers wait for gradients of those who hold training leases, and for no others."""
        training = self._job.machines.get(TRAINING)
        senders = frozenset(training.training_workers() if training else ())
        if senders != self._senders:
            self._senders = senders
            self._tasks.spawn(self.home.set_senders(sorted(senders)))

    async def save_last(self) -> None:
        """The job is done: its last version is saved, if checkpoints are wanted at all."""
        if self._job.spec.checkpoint_steps and self._job.spec.kind is Kind.TRAINING:
            await self.checkpoints.settled()
            if self._job.saved_version != self._job.version:
                await self.save_now()

    async def save_now(self) -> None:
        """Write the present state, before all ends."""
        if self._job.spec.kind is Kind.TRAINING and self._job.version > 0:
            await self.checkpoints.save_now(self.home)

    async def _saved(self, version: int, seconds: float, size: int) -> None:
        self._job.save(version)
        await self._durable()  # before its snapshot and older checkpoints go: the next master must know of it
        self.free(version, "checkpoint")
        self._narrator.checkpoint(version, seconds, size)

    async def _begin_era(self, era: int, origin: Origin) -> None:
        """A consistent model is there: the ledger goes back with it, and work may be handed out."""
        is_first = not self._job.era
        effects = self._job.begin_era(era, origin)
        again = sum(e.again for e in effects if isinstance(e, ledger.RolledBack))
        self.senders_changed()
        self._needed.clear()
        if self._job.evaluation is not None:
            self._tell(EVALUATION, evaluation.SnapshotLost())
            self._tell(EVALUATION, evaluation.Began(time.time()))
            self._evaluate_if_trained()
        await self._durable()
        await self.checkpoints.go_back(origin.version)
        self._narrator.era(origin, again, is_first=is_first)
        self._tasks.spawn(self._stop_again())  # first thing when whoever holds the model knows of the era
        self._news()

    async def _begin_world(self, world: int) -> None:
        self._job.begin_world(world)
        await self._durable()

    async def _stop_again(self) -> None:
        """The ledger went back with the model and knows no more that enough is trained."""
        self._stop_if_trained()

    def _evaluate_if_trained(self) -> None:
        """The model came back as it was at the end: no training will lead to the last evaluation again."""
        main, judge, version = self._job.main, self._job.evaluation, self._job.version
        if main is not None and main.finished and judge is not None and version not in judge.results:
            self._tell(EVALUATION, evaluation.FinalModel(version))


def _multiples(step: int, after: int, upto: int) -> range:
    """The multiples of `step` in (after, upto]."""
    return range((after // step + 1) * step, upto + 1, step) if step else range(0)

"""The home of a model that every worker of the present world holds (AllReduce).

The rendezvous decides which world that is; here its decisions are carried out: members called in, a store
opened where they find each other, places given out. A world none of whose members holds the present era's
state begins a new one: rank 0 takes the newest checkpoint and gives it to all. That is for training only:
at the job's end whoever comes in late finds no others, and there is nothing to begin.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from elastic_runtime.errors import ElasticError
from elastic_runtime.master import rendezvous
from elastic_runtime.master.home.base import BeginEra, FindCheckpoint, Origin
from elastic_runtime.master.home.questions import Questions
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.rpc import master_pb2

GATHER_SECONDS = 1.0
"""Workers that come within this time of each other are let in together."""
REUNION_SECONDS = 3.0
"""So long a new master waits for those it has not heard of yet."""
PATIENCE_SECONDS = 10.0
"""A member that has not left its world so long after another one did is left out of the next; and so long do
newcomers wait, at a new master, for somebody who holds the model.
"""


@dataclass(frozen=True, slots=True)
class WorldTerms:
    """How many shall train together, where they meet, and who is told of it."""

    wanted: int
    smallest: int
    host: str
    told: Callable[[rendezvous.Formed, Sequence[str]], None]  # the new world, and who was in the one before
    failed: Callable[[str], None]
    began: Callable[[int], Awaitable[None]]  # a world of this number; returns once that is durable
    newest: Callable[[], int]  # the number of the newest world there ever was
    settled: Callable[[], int]  # the newest version up to which shards are reported done
    ending: Callable[[], bool]  # all is done, or the job is stopped: its workers leave
    by_hand: bool = False  # how many there are is known to whoever starts them


class ReplicatedHome:
    """The model is in every worker of the present world."""

    def __init__(
        self,
        members: Members,
        terms: WorldTerms,
        *,
        tasks: Tasks,
        find_checkpoint: FindCheckpoint,
        begin_era: BeginEra,
    ) -> None:
        self._members, self._terms, self._tasks = members, terms, tasks
        self._find, self._begin = find_checkpoint, begin_era
        self._era = 0
        self._rendezvous = rendezvous.Rendezvous(
            wanted=terms.wanted,
            smallest=terms.smallest,
            gather=GATHER_SECONDS,
            patience=PATIENCE_SECONDS,
            by_hand=terms.by_hand,
        )
        self._store: rendezvous.Store | None = None
        self._places: dict[str, master_pb2.WorldReply] = {}
        self._forming: Sequence[str] = ()
        self._before: Sequence[str] = ()
        self._changed = asyncio.Event()
        self._back = asyncio.Event()
        self._coming_together = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self.questions = Questions(members)

    def resume(self, era: int, origin: Origin) -> None:  # noqa: ARG002 - its members tell which world stands
        """After a restart of the master: the era it was in."""
        self._era = era
        self._rendezvous.resume(REUNION_SECONDS, self._terms.newest())

    async def back(self) -> None:
        """Wait until a world is there, and all of it: its members come one by one."""
        await self._back.wait()
        await asyncio.sleep(REUNION_SECONDS)

    def joined(self, member: master_pb2.Member) -> None:
        """A worker is there; after a restart of the master it may be in a world."""
        if member.role != master_pb2.ROLE_WORKER:
            return
        stale = bool(member.world) and member.era != self._era
        self._tell(rendezvous.Arrived(member.name, 0 if stale else member.world, member.rank))
        if stale:
            self._call_in(member.name, member.world, "the model went back meanwhile")

    def lost(self, member: str) -> None:
        """A worker is gone."""
        self.questions.lost(member)
        self._tell(rendezvous.Gone(member))

    def away(self, member: str) -> None:
        """Whoever cannot be reached is not waited for; if it lives, it comes back."""
        self._tell(rendezvous.Away(member))

    def silent(self, worker: str) -> None:
        """The others of its world may be waiting for it: they leave it, and it too if it can."""
        self._tell(rendezvous.Silent(worker, time.time()))

    def topology(self) -> master_pb2.Topology:
        """Workers ask for their world themselves."""
        return master_pb2.Topology(era=self._era)

    async def world(self, request: master_pb2.WorldRequest) -> master_pb2.WorldReply:
        """The asking worker's place in the next world, or an empty reply if there is none in time."""
        give_up = time.monotonic() + request.wait_seconds
        while not self._placed(request):
            if request.member not in self._forming:
                self._tell(
                    rendezvous.Asked(
                        request.member,
                        request.era,
                        request.version,
                        request.checksum,
                        time.time(),
                        request.left,
                    )
                )
            changed, left = self._changed, give_up - time.monotonic()
            if self._placed(request):
                break
            if left <= 0:
                return master_pb2.WorldReply()
            try:
                await asyncio.wait_for(changed.wait(), left)
            except TimeoutError:
                return master_pb2.WorldReply()
        return self._places[request.member]

    def news(self) -> None:
        """Something changed: whoever waits may look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def snapshot(self) -> int:
        """Rank 0 has all members take it after the same step."""
        return await self.questions.snapshot(self._first())

    async def drop_snapshot(self, version: int) -> None:
        """Every member has one."""
        order = master_pb2.DropSnapshotOrder(version=version)
        self._members.tell_workers(master_pb2.Order(drop_snapshot=order))

    async def save(self, version: int, directory: Path) -> int:
        """Rank 0 writes it."""
        return await self.questions.save(self._first(), version, str(directory))

    async def set_senders(self, workers: Sequence[str]) -> None:
        """A worker without records takes part with none."""

    async def close(self) -> None:
        """Close the store and stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
        if self._store is not None:
            self._store.close()

    def _first(self) -> str:
        members = self._rendezvous.members
        if not members:
            raise ElasticError("no worker holds the model at the moment")
        return members[0]

    def _placed(self, request: master_pb2.WorldRequest) -> bool:
        place = self._places.get(request.member)
        return place is not None and place.world > request.left

    def _tell(self, event: rendezvous.Event) -> None:
        for effect in self._rendezvous.handle(event):
            self._follow(effect)
        self._set_timer()
        if self._rendezvous.members:
            self._back.set()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self._rendezvous.next_deadline()
        self._timer = None
        if due is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, due - time.time()), self._tick)

    def _tick(self) -> None:
        self._tell(rendezvous.Tick(time.time()))

    def _follow(self, effect: rendezvous.Effect) -> None:
        match effect:
            case rendezvous.CallIn(members, newcomers):
                reason = f"{', '.join(newcomers)} joins" if len(newcomers) == 1 else "others join"
                for name in members:
                    self._call_in(name, self._rendezvous.world, reason)
            case rendezvous.Void(world):
                self._places.clear()
                if self._store is not None:
                    self._store.void()
                for name in self._rendezvous.members:
                    self._call_in(name, world, "a member is lost", void=True)
            case rendezvous.Formed():
                self._places.clear()
                self._forming = effect.members
                self._tasks.spawn(self._bring_together(effect))
            case rendezvous.Diverged(one, other, version):
                self._terms.failed(f"{one} and {other} hold different weights of version {version}")

    def _call_in(self, member: str, world: int, reason: str, *, void: bool = False) -> None:
        order = master_pb2.CallInOrder(world=world, reason=reason, void=void)
        self._members.send(member, master_pb2.Order(call_in=order))

    async def _bring_together(self, formed: rendezvous.Formed) -> None:
        async with self._coming_together:
            if formed.world == self._rendezvous.world:  # else all of it were lost while it waited here
                await self._give_places(formed)

    async def _give_places(self, formed: rendezvous.Formed) -> None:
        if self._terms.ending() and not self._holds_present(formed):
            return  # its members will hear that they are to leave
        origin = await self._settle_era(formed)
        await self._terms.began(formed.world)  # before anybody hears of it: the next master counts on
        if self._store is not None:
            self._store.close()
        self._store = rendezvous.Store()
        port = await self._store.open(self._terms.host)
        if self._rendezvous.members != list(formed.members):
            self._store.void()  # one of them was lost meanwhile: the others ask again
        self._places = {
            name: master_pb2.WorldReply(
                world=formed.world,
                rank=rank,
                size=len(formed.members),
                store=f"{self._terms.host}:{port}",
                era=self._era,
                restore_from=origin.checkpoint if rank == 0 else "",
                keep=origin.how == "copy" and rank == 0,
            )
            for rank, name in enumerate(formed.members)
        }
        self._terms.told(formed, self._before)
        self._before, self._forming = formed.members, ()
        self.news()

    async def _settle_era(self, formed: rendezvous.Formed) -> Origin:
        """If nobody holds the model's present state, begin a new era; with what it begins."""
        if self._holds_present(formed):
            return Origin("present")
        origin = await asyncio.to_thread(self._find) or Origin("fresh")
        if self._era and formed.era == self._era and formed.version > origin.version:
            origin = Origin("copy", version=formed.version)  # of one that was left out by those now lost
        await self._begin(self._era + 1, origin.held_by(formed.members))
        self._era += 1
        return origin

    def _holds_present(self, formed: rendezvous.Formed) -> bool:
        """Whether its rank 0 has all that was reported done."""
        return 0 < self._era == formed.era and formed.version >= self._terms.settled()

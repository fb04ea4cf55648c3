"""The home of a model that one worker holds (strategy Local): the worker snapshots, saves and restores it.

What any other worker trained would go into a model that nobody keeps. So one that comes while the holder
lives is a spare: it is not let in, and takes the holder's place, in a new era, once that is lost. After a
restart of the master the holder is waited for before a spare takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from elastic_runtime.master.home.base import BeginEra, FindCheckpoint, Origin
from elastic_runtime.master.home.questions import Questions
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.rpc import master_pb2

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 10.0
"""So long after the first spare has come a new master waits for the holder that it has not heard of yet."""


class HeldHome:
    """The model is in one worker (Local)."""

    def __init__(
        self,
        members: Members,
        *,
        tasks: Tasks,
        find_checkpoint: FindCheckpoint,
        begin_era: BeginEra,
        ending: Callable[[], bool] = lambda: False,
    ) -> None:
        self._members, self._tasks = members, tasks
        self._find, self._begin, self._ending = find_checkpoint, begin_era, ending
        self._era, self._holder, self._name = 0, "", ""
        self._restore_from = ""
        self._ready = False
        self._is_lost = True  # the holder, or there was none yet; one that was only cut off may come back
        self._spares: dict[str, master_pb2.Member] = {}  # oldest first
        self._joining = ""  # who joined last
        self._settling = asyncio.Lock()
        self._known = asyncio.Event()  # whether the holder is there, or is none: not while it may come back
        self._known.set()
        self._back = asyncio.Event()
        self.questions = Questions(members)

    def resume(self, era: int, origin: Origin) -> None:
        """After a restart of the master: the era it was in."""
        self._era, self._restore_from = era, origin.checkpoint
        self._holder, self._name = (*origin.holders, "", "")[:2]
        self._ready, self._is_lost = True, False
        self._known.clear()

    async def back(self) -> None:
        """Wait until a worker that holds the model is there."""
        await self._back.wait()

    def joined(self, member: master_pb2.Member) -> None:
        """The holder is back, or another worker takes its place, or is to wait."""
        if member.role != master_pb2.ROLE_WORKER:
            return
        self._joining = member.incarnation
        if member.incarnation == self._holder:
            self._name, self._is_lost = member.name, False
            self._known.set()
            if self._ready:
                self._back.set()
        elif self._is_lost or member.name == self._name:  # its process is another now
            self._take(member)
        else:
            self._keep_waiting(member)

    def lost(self, member: str) -> None:
        """Whoever waits for the holder's answer waits in vain; a spare takes its place."""
        self.questions.lost(member)
        self._spares.pop(member, None)
        if member == self._name:
            self._give_up_holder()

    def away(self, member: str) -> None:
        """It may come back."""

    def silent(self, worker: str) -> None:
        """No other worker holds the model."""

    def topology(self) -> master_pb2.Topology:
        """For the worker that joined last: ready once the era has begun, for the holder alone."""
        ready = self._ready and self._joining == self._holder
        return master_pb2.Topology(era=self._era, ready=ready, restore_from=self._restore_from)

    def dismiss_spares(self, reason: str) -> None:
        """They wait for what will not come."""
        for name in self._spares:
            self._members.send(name, master_pb2.Order(drain=master_pb2.DrainOrder(reason=reason)))

    async def snapshot(self) -> int:
        """Ask the holder."""
        return await self.questions.snapshot(self._name)

    async def drop_snapshot(self, version: int) -> None:
        """Tell the holder."""
        order = master_pb2.Order(drop_snapshot=master_pb2.DropSnapshotOrder(version=version))
        self._members.send(self._name, order)

    async def save(self, version: int, directory: Path) -> int:
        """Ask the holder."""
        return await self.questions.save(self._name, version, str(directory))

    async def set_senders(self, workers: Sequence[str]) -> None:
        """There is one worker, and it waits for nobody."""

    async def close(self) -> None:
        """Nothing is held open."""

    def _take(self, member: master_pb2.Member) -> None:
        """This worker holds the model from now on."""
        self._spares.pop(member.name, None)
        self._holder, self._name = member.incarnation, member.name
        self._ready = self._is_lost = False
        self._known.set()
        self._tasks.spawn(self._settle())

    def _keep_waiting(self, member: master_pb2.Member) -> None:
        holder = self._name or "another one"
        log.info("%s waits: with the strategy Local one worker trains, and %s does", member.name, holder)
        self._spares[member.name] = member
        if not self._known.is_set() and len(self._spares) == 1:
            self._tasks.spawn(self._await_holder())

    async def _await_holder(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._known.wait(), PATIENCE_SECONDS)
            return
        log.warning("%s has not come back for %g s", self._name or "the worker", PATIENCE_SECONDS)
        self._give_up_holder()

    def _give_up_holder(self) -> None:
        self._is_lost = True
        self._known.set()
        there = [m for m in self._spares.values() if m.name in self._members]
        heir = next((m for m in there if self._members.lives(m.name, m.incarnation)), None)
        if heir is not None and not self._ending():
            self._take(heir)

    async def _settle(self) -> None:
        """Begin the holder's era; one after the other, if it is lost meanwhile."""
        async with self._settling:
            holder, name = self._holder, self._name
            if self._ready:
                return
            origin = await asyncio.to_thread(self._find) or Origin("fresh")
            self._restore_from = origin.checkpoint
            era = self._era + 1
            await self._begin(era, origin.held_by([holder, name]))
            self._era = era
            if self._holder == holder:
                self._ready = True
                self._back.set()
                topology = master_pb2.Topology(era=era, ready=True, restore_from=self._restore_from)
                self._members.send(name, master_pb2.Order(topology=topology))

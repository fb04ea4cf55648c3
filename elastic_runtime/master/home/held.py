"""The home of a model that one worker holds (strategy Local): the worker snapshots, saves and restores it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from elastic_runtime.master.home.base import BeginEra, FindCheckpoint, Origin
from elastic_runtime.master.home.questions import Questions
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.rpc import master_pb2


class HeldHome:
    """The model is in one worker (Local)."""

    def __init__(
        self, members: Members, *, tasks: Tasks, find_checkpoint: FindCheckpoint, begin_era: BeginEra
    ) -> None:
        self._members, self._tasks = members, tasks
        self._find, self._begin = find_checkpoint, begin_era
        self._era, self._holder, self._name = 0, "", ""
        self._restore_from = ""
        self._ready = False
        self._back = asyncio.Event()
        self.questions = Questions(members)

    def resume(self, era: int, origin: Origin) -> None:
        """After a restart of the master: the era it was in."""
        self._era, self._restore_from = era, origin.checkpoint
        self._holder = origin.holders[0] if origin.holders else ""
        self._ready = True

    async def back(self) -> None:
        """Wait until a worker that holds the model is there."""
        await self._back.wait()

    def joined(self, member: master_pb2.Member) -> None:
        """The holder is back, or another worker takes its place."""
        if member.role != master_pb2.ROLE_WORKER:
            return
        self._name = member.name
        if member.incarnation != self._holder:
            self._holder, self._ready = member.incarnation, False
            self._tasks.spawn(self._settle())
        elif self._ready:
            self._back.set()

    def lost(self, member: str) -> None:
        """Whoever waits for the holder's answer waits in vain."""
        self.questions.lost(member)

    def away(self, member: str) -> None:
        """It may come back."""

    def silent(self, worker: str) -> None:
        """No other worker holds the model."""

    def topology(self) -> master_pb2.Topology:
        """Ready once the era has begun."""
        return master_pb2.Topology(era=self._era, ready=self._ready, restore_from=self._restore_from)

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

    async def _settle(self) -> None:
        origin = await asyncio.to_thread(self._find) or Origin("fresh")
        self._restore_from = origin.checkpoint
        era = self._era + 1
        await self._begin(era, origin.held_by([self._holder]))
        self._era, self._ready = era, True
        self._back.set()
        self._members.tell_workers(master_pb2.Order(topology=self.topology()))

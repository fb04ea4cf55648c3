"""The home of a model that one worker holds (strategy Local): the worker snapshots, saves and restores it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.home.base import BeginEra, FindCheckpoint, Origin
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.rpc import master_pb2

ANSWER_SECONDS = 120.0


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
        self._answers: dict[str, asyncio.Future[int]] = {}

    def resume(self, era: int, origin: Origin) -> None:
        """After a restart of the master: the era it was in."""
        self._era, self._restore_from = era, origin.checkpoint
        self._holder = origin.holders[0] if origin.holders else ""
        self._ready = True

    def joined(self, member: master_pb2.Member) -> None:
        """The holder is back, or another worker takes its place."""
        if member.role != master_pb2.ROLE_WORKER:
            return
        self._name = member.name
        if member.incarnation != self._holder:
            self._holder, self._ready = member.incarnation, False
            self._tasks.spawn(self._settle())

    def lost(self, member: str) -> None:
        """Whoever waits for the holder's answer waits in vain."""
        if member == self._name:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(
                        ElasticError("the worker that holds the model is gone", where=member)
                    )

    def topology(self) -> master_pb2.Topology:
        """Ready once the era has begun."""
        return master_pb2.Topology(era=self._era, ready=self._ready, restore_from=self._restore_from)

    async def snapshot(self) -> int:
        """Ask the holder."""
        return await self._ask("snapshot", master_pb2.Order(snapshot=master_pb2.SnapshotOrder()))

    async def drop_snapshot(self, version: int) -> None:
        """Tell the holder."""
        order = master_pb2.Order(drop_snapshot=master_pb2.DropSnapshotOrder(version=version))
        self._members.send(self._name, order)

    async def save(self, version: int, directory: Path) -> int:
        """Ask the holder."""
        save = master_pb2.SaveOrder(version=version, directory=str(directory))
        return await self._ask("save", master_pb2.Order(save=save))

    def reached(self, version: int) -> None:
        """The holder took the snapshot asked for."""
        self._resolve("snapshot", version)

    def saved(self, version: int, error: str) -> None:
        """The holder wrote what was asked for."""
        self._resolve("save", version, error)

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
        self._members.tell_workers(master_pb2.Order(topology=self.topology()))

    async def _ask(self, what: str, order: master_pb2.Order) -> int:
        answer = self._answers[what] = asyncio.get_running_loop().create_future()
        try:
            if not self._members.send(self._name, order):
                raise ElasticError("the worker that holds the model is away", where=self._name)
            return await asyncio.wait_for(answer, ANSWER_SECONDS)
        except TimeoutError:
            what = f"the worker that holds the model did not answer for {ANSWER_SECONDS:g} s"
            raise ElasticError(what, where=self._name) from None
        finally:
            del self._answers[what]

    def _resolve(self, what: str, version: int, error: str = "") -> None:
        answer = self._answers.get(what)
        if answer is not None and not answer.done():
            if error:
                answer.set_exception(ElasticError(error))
            else:
                answer.set_result(version)

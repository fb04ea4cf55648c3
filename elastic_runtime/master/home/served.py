"""The home of a model on parameter servers, each with its part.

A parameter server that comes under a new incarnation has lost its part, and then no part can stay what it
is: all of them go back together.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.home.base import BeginEra, FindCheckpoint, Origin
from elastic_runtime.master.home.copies import Copies
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.ps.control import PSControl
from elastic_runtime.rpc import master_pb2

log = logging.getLogger(__name__)

REJOIN_SECONDS = 10.0
AGAIN_SECONDS = 1.0
NOT_ALL_THERE = "not all parameter servers are there"


class ServedHome:
    """The model is on parameter servers, each with its part."""

    def __init__(
        self,
        parts: int,
        *,
        members: Members,
        token: str,
        tasks: Tasks,
        find_checkpoint: FindCheckpoint,
        begin_era: BeginEra,
    ) -> None:
        self._count, self._members, self._token, self._tasks = parts, members, token, tasks
        self._find, self._begin = find_checkpoint, begin_era
        self._era = self._tried = 0
        self._known: list[str] = [""] * parts  # the incarnations that hold this era's model
        self._here: dict[int, master_pb2.Member] = {}
        self._control: PSControl | None = None
        self._controlled: list[str] = []
        self._changed = asyncio.Event()
        self._settling = False
        self.copies = Copies(members)
        self._senders: Sequence[str] | None = None  # None: nobody has said yet
        self._generation = 0

    def resume(self, era: int, origin: Origin) -> None:
        """After a restart of the master: the era it was in and who held it."""
        self._era, self._known = era, list(origin.holders)

    async def back(self) -> None:
        """Wait until those who hold the model are there."""
        await self._until(self._all_known)

    def joined(self, member: master_pb2.Member) -> None:
        """A parameter server is there (again), or a worker, which may have a copy of the model."""
        if member.role != master_pb2.ROLE_PS:
            self.copies.joined(member.name)
            return
        self._here[member.index] = member
        if member.state == "ready" and member.era != self._era:
            self._known[member.index] = ""  # an earlier master died while it brought the model back
        self._changed.set()
        self.copies.look_again()
        if self._all_known():
            self._tell_workers()
            self._tasks.spawn(self._tell_senders())
        elif len(self._here) == self._count and not self._settling:
            self._settling = True
            self._tasks.spawn(self._settle())

    def lost(self, member: str) -> None:
        """A pod ended; if a parameter server's, nothing can be trained until its successor has its part."""
        self.copies.lost(member)
        for index, there in list(self._here.items()):
            if there.name == member:
                del self._here[index]
                self._members.forget(member)
                self._known[index] = ""
                self._changed.set()
                self._tell_workers()

    def away(self, member: str) -> None:
        """It may come back."""

    def silent(self, worker: str) -> None:
        """The barrier does not wait for a worker without leases."""

    def topology(self) -> master_pb2.Topology:
        """Ready while every part is with the holder the era began with."""
        ready = self._era > 0 and self._all_known()
        addresses = [self._here[i].address for i in range(self._count)] if ready else []
        return master_pb2.Topology(era=self._era, ready=ready, ps_addresses=addresses)

    async def snapshot(self) -> int:
        """On every part, at one version."""
        return await (await self._reach()).snapshot()

    async def drop_snapshot(self, version: int) -> None:
        """On every part."""
        era = self._era
        with contextlib.suppress(ElasticError):  # a new era forgets all snapshots
            await (await self._reach()).drop_snapshot(version, era)

    async def save(self, version: int, directory: Path) -> int:
        """Every part writes its file."""
        era = self._era
        await self._until(self._all_known, seconds=REJOIN_SECONDS)  # a new master meets them one by one
        await (await self._reach()).save(version, str(directory), era)
        if era != self._era:
            raise ElasticError("the model changed while it was saved")
        return version

    async def set_senders(self, workers: Sequence[str]) -> None:
        """Tell every part whom a synchronous step may wait for, now or as soon as all are there."""
        self._senders = workers
        await self._tell_senders()

    async def close(self) -> None:
        """Close the lines to the parameter servers."""
        if self._control is not None:
            await self._control.close()

    async def _settle(self) -> None:
        """Until all parts hold one state: a part may be lost again while this is under way."""
        said = ""
        while not self._all_known():
            await self._until(lambda: len(self._here) == self._count)
            holders, era = self._incarnations(), self._next_era()
            try:
                origin = await self._bring_back(era, holders)
            except (ElasticError, TimeoutError) as problem:
                why = str(problem) or "no answer in time"
                if why != said:
                    what = "be brought back" if self._era else "begin"
                    log.warning("the model could not %s yet: %s", what, why)
                    said = why
                await self._until(functools.partial(self._not, holders), seconds=1.0)
                continue
            if holders == self._incarnations():
                await self._begin(era, origin.held_by(holders))
                self._era, self._known = era, holders
        self._settling = False
        self._tell_workers()
        await self._tell_senders()

    def _next_era(self) -> int:
        """One that nobody knows yet: what was tried and failed may have reached some parts already."""
        self._tried = 1 + max(self._era, self._tried, *(member.era for member in self._here.values()))
        return self._tried

    async def _bring_back(self, era: int, holders: list[str]) -> Origin:
        origin = await asyncio.to_thread(self._find)
        if origin is not None:
            await (await self._reach()).restore(origin.checkpoint, era)
            return origin
        if len(self._here) < self._count:
            raise ElasticError(NOT_ALL_THERE)  # one was lost meanwhile
        addresses = [self._here[i].address for i in range(self._count)]
        is_first, void = not self._era, functools.partial(self._not, holders)
        return await self.copies.use_freshest(era, addresses, void=void, is_first=is_first)

    def _all_known(self) -> bool:
        return len(self._here) == self._count and self._incarnations() == self._known

    def _incarnations(self) -> list[str]:
        return [self._here[i].incarnation if i in self._here else "" for i in range(self._count)]

    def _not(self, holders: list[str]) -> bool:
        return self._incarnations() != holders

    async def _reach(self) -> PSControl:
        """The line to all parameter servers where they are now."""
        if len(self._here) < self._count:
            raise ElasticError(NOT_ALL_THERE)
        addresses = [self._here[i].address for i in range(self._count)]
        if self._control is None or self._controlled != addresses:
            if self._control is not None:
                await self._control.close()
            self._control, self._controlled = PSControl(addresses, token=self._token), addresses
        return self._control

    async def _tell_senders(self) -> None:
        """Until all parts have heard it, or will be told anew: by a later word, or as a lost one is back."""
        # Beyond those of a dead master, too.
        generation = self._generation = max(self._generation + 1, time.time_ns())
        while self._senders is not None and self._generation == generation and self._all_known():
            try:
                await (await self._reach()).set_senders(generation, self._senders)
            except ElasticError as problem:
                log.debug("the parameter servers do not know yet who trains: %s", problem)
                await self._until(lambda: not self._all_known(), seconds=AGAIN_SECONDS)
            else:
                return

    def _tell_workers(self) -> None:
        self._members.tell_workers(master_pb2.Order(topology=self.topology()))

    async def _until(self, condition: Callable[[], bool], seconds: float | None = None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()

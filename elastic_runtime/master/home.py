"""Where the model lives, and how it comes back to one consistent state after a part of it was lost.

Each beginning of a consistent state is an *era*: leases and gradients of older eras are void. A home learns of its
holders as they join; when they are not those of the present era it finds the best state that is left (the newest
checkpoint, else the freshest copy a worker has, else a new start), has every holder take it, and begins the next era.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.members import Members
from elastic_runtime.ps.control import PSControl
from elastic_runtime.rpc import master_pb2

log = logging.getLogger(__name__)

OFFER_SECONDS = 30.0
UPLOAD_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Origin:
    """What an era's model is made of."""

    how: str  # "fresh", "checkpoint" or "copy"
    version: int = 0
    checkpoint: str = ""
    ledger: Mapping[str, Any] | None = None
    holders: Sequence[str] = field(default_factory=tuple)


BeginEra = Callable[[int, Origin], Awaitable[None]]
FindCheckpoint = Callable[[], Origin | None]


class Home(Protocol):
    """What the rest of the master asks of the model's holders."""

    def joined(self, member: master_pb2.Member) -> None:
        """A parameter server or a worker joined."""

    def lost(self, member: str) -> None:
        """A holder's pod ended."""

    def topology(self) -> master_pb2.Topology:
        """What a joining worker is told."""

    async def snapshot(self) -> int:
        """Keep a copy of the model as it is now; returns its version."""

    async def drop_snapshot(self, version: int) -> None:
        """The copy is needed no longer."""

    async def save(self, version: int, directory: Path) -> int:
        """Write the snapshot of `version` there, in as many parts as there are holders."""

    async def set_senders(self, workers: Sequence[str]) -> None:
        """These workers hold training leases: the parameter servers wait for no others."""

    async def close(self) -> None:
        """Let go of the holders."""


class StaticHome:
    """Evaluation or prediction only: every worker reads the finished checkpoint itself."""

    def __init__(self, checkpoint: str) -> None:
        self._topology = master_pb2.Topology(era=1, ready=True, restore_from=checkpoint)

    def joined(self, member: master_pb2.Member) -> None:
        """Nothing is held."""

    def lost(self, member: str) -> None:
        """Nothing was held."""

    def topology(self) -> master_pb2.Topology:
        """Always ready."""
        return self._topology

    async def snapshot(self) -> int:
        """The model never changes."""
        return 0

    async def drop_snapshot(self, version: int) -> None:
        """The model never changes."""

    async def save(self, version: int, directory: Path) -> int:
        """There is nothing new to save."""
        raise ElasticError("a job that does not train has no checkpoint to write")

    async def set_senders(self, workers: Sequence[str]) -> None:
        """Nobody sends gradients."""

    async def close(self) -> None:
        """Nothing is held."""


class HeldHome:
    """The model is in one worker (Local)."""

    def __init__(self, members: Members, find_checkpoint: FindCheckpoint, begin_era: BeginEra) -> None:
        self._members, self._find, self._begin = members, find_checkpoint, begin_era
        self._era, self._holder, self._name = 0, "", ""
        self._restore_from = ""
        self._ready = False
        self._answers: dict[str, asyncio.Future[int]] = {}
        self._task: asyncio.Task[None] | None = None

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
            self._task = asyncio.get_running_loop().create_task(self._settle())

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
        """Wait for a settling under way."""
        await _cancel(self._task)

    async def _settle(self) -> None:
        origin = self._find() or Origin("fresh")
        self._restore_from = origin.checkpoint
        era = self._era + 1
        await self._begin(era, _held_by(origin, [self._holder]))
        self._era, self._ready = era, True
        self._members.tell_workers(master_pb2.Order(topology=self.topology()))

    async def _ask(self, what: str, order: master_pb2.Order) -> int:
        answer = self._answers[what] = asyncio.get_running_loop().create_future()
        try:
            if not self._members.send(self._name, order):
                raise ElasticError("the worker that holds the model is away", where=self._name)
            return await asyncio.wait_for(answer, UPLOAD_SECONDS)
        finally:
            del self._answers[what]

    def _resolve(self, what: str, version: int, error: str = "") -> None:
        answer = self._answers.get(what)
        if answer is not None and not answer.done():
            if error:
                answer.set_exception(ElasticError(error))
            else:
                answer.set_result(version)


class ServedHome:
    """The model is on parameter servers, each with its part."""

    def __init__(
        self,
        parts: int,
        *,
        members: Members,
        token: str,
        find_checkpoint: FindCheckpoint,
        begin_era: BeginEra,
    ) -> None:
        self._count, self._members, self._token = parts, members, token
        self._find, self._begin = find_checkpoint, begin_era
        self._era = 0
        self._known: list[str] = [""] * parts  # the incarnations that hold this era's model
        self._here: dict[int, master_pb2.Member] = {}
        self._control: PSControl | None = None
        self._controlled: list[str] = []
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._offers: dict[str, tuple[int, asyncio.Future[bool]]] = {}
        self._offered = asyncio.Event()
        self._uploaded: asyncio.Future[int] | None = None
        self._senders: Sequence[str] = ()
        self._generation = 0

    def resume(self, era: int, origin: Origin) -> None:
        """After a restart of the master: the era it was in and who held it."""
        self._era, self._known = era, list(origin.holders)

    def joined(self, member: master_pb2.Member) -> None:
        """A parameter server is there (again); a worker needs nothing from here but the topology."""
        if member.role != master_pb2.ROLE_PS:
            return
        self._here[member.index] = member
        self._changed.set()
        if self._all_known():
            self._tell_workers()
        elif len(self._here) == self._count and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._settle())

    def lost(self, member: str) -> None:
        """A parameter server's pod ended: nothing can be trained until its successor has its part."""
        for index, there in list(self._here.items()):
            if there.name == member:
                del self._here[index]
                self._known[index] = ""
                self._changed.set()
                self._tell_workers()

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
        with contextlib.suppress(ElasticError):  # a new era forgets all snapshots
            await (await self._reach()).drop_snapshot(version)

    async def save(self, version: int, directory: Path) -> int:
        """Every part writes its file."""
        era = self._era
        await (await self._reach()).save(version, str(directory.absolute()))
        if era != self._era:
            raise ElasticError("the model changed while it was saved")
        return version

    async def set_senders(self, workers: Sequence[str]) -> None:
        """Tell every part whom a synchronous step may wait for."""
        self._senders = workers
        self._generation += 1
        generation = self._generation
        with contextlib.suppress(ElasticError):  # told again when the parameter servers are back
            await (await self._reach()).set_senders(generation, workers)

    async def offered(self, worker: str, version: int) -> bool:
        """A worker holds `version`: answered once it is decided whose copy is used."""
        decision: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._offers[worker] = (version, decision)
        self._offered.set()
        return await decision

    def uploaded(self, version: int, error: str) -> None:
        """The chosen worker is through."""
        if self._uploaded is not None and not self._uploaded.done():
            if error:
                self._uploaded.set_exception(ElasticError(error))
            else:
                self._uploaded.set_result(version)

    async def close(self) -> None:
        """Close the lines to the parameter servers."""
        await _cancel(self._task)
        if self._control is not None:
            await self._control.close()

    # -- settling -----------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Until all parts hold one state: a part may be lost again while this is under way."""
        while True:
            await self._until(lambda: len(self._here) == self._count)
            holders = self._incarnations()
            try:
                origin = await self._bring_back(self._era + 1)
            except (ElasticError, TimeoutError) as problem:
                log.warning("the model could not be brought back yet: %s", problem or "no answer in time")
                await self._until(functools.partial(self._not, holders), timeout=1.0)
                continue
            if holders == self._incarnations():
                await self._begin(self._era + 1, _held_by(origin, holders))
                self._era, self._known = self._era + 1, holders
                self._tell_workers()
                await self.set_senders(self._senders)
                return

    async def _bring_back(self, era: int) -> Origin:
        origin = self._find()
        if origin is not None:
            await (await self._reach()).restore(str(Path(origin.checkpoint).absolute()), era)
            return origin
        return await self._from_copy(era) if self._era else Origin("fresh")

    async def _from_copy(self, era: int) -> Origin:
        """The freshest copy of the dense variables that a worker has, if any."""
        self._offers.clear()
        addresses = [self._here[i].address for i in range(self._count)]
        offer = master_pb2.OfferCopyOrder(era=era, ps_addresses=addresses)
        self._members.tell_workers(master_pb2.Order(offer_copy=offer))
        deadline = asyncio.get_running_loop().time() + OFFER_SECONDS
        while {c.member.name for c in self._members.of(master_pb2.ROLE_WORKER)} - self._offers.keys():
            left = deadline - asyncio.get_running_loop().time()
            self._offered.clear()
            try:
                await asyncio.wait_for(self._offered.wait(), min(left, 0.2) if left > 0 else 0.001)
            except TimeoutError:
                if left <= 0:
                    break
        return await self._choose_copy()

    async def _choose_copy(self) -> Origin:
        best_first = sorted(self._offers.values(), key=lambda offer: -offer[0])
        origin = Origin("fresh")
        for version, decision in best_first:
            if version < 0 or origin.how == "copy" or decision.done():
                continue
            self._uploaded = asyncio.get_running_loop().create_future()
            decision.set_result(True)
            try:
                await asyncio.wait_for(self._uploaded, UPLOAD_SECONDS)
                origin = Origin("copy", version=version)
            except (ElasticError, TimeoutError) as problem:
                log.warning("a worker's copy of version %d could not be used: %s", version, problem)
        for _, decision in best_first:
            if not decision.done():
                decision.set_result(False)
        return origin

    # -- parts --------------------------------------------------------------------------------------------------

    def _all_known(self) -> bool:
        return len(self._here) == self._count and self._incarnations() == self._known

    def _incarnations(self) -> list[str]:
        return [self._here[i].incarnation if i in self._here else "" for i in range(self._count)]

    def _not(self, holders: list[str]) -> bool:
        return self._incarnations() != holders

    async def _reach(self) -> PSControl:
        """The line to all parameter servers where they are now."""
        if len(self._here) < self._count:
            raise ElasticError("not all parameter servers are there")
        addresses = [self._here[i].address for i in range(self._count)]
        if self._control is None or self._controlled != addresses:
            if self._control is not None:
                await self._control.close()
            self._control, self._controlled = PSControl(addresses, token=self._token), addresses
        return self._control

    def _tell_workers(self) -> None:
        self._members.tell_workers(master_pb2.Order(topology=self.topology()))

    async def _until(self, condition: Callable[[], bool], timeout: float | None = None) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass


def _held_by(origin: Origin, holders: Sequence[str]) -> Origin:
    return Origin(origin.how, origin.version, origin.checkpoint, origin.ledger, tuple(holders))


async def _cancel(task: asyncio.Task[None] | None) -> None:
    if task is not None and not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

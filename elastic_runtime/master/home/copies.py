"""Whose model the parameter servers get where there is no checkpoint: the best that a worker has.

Every worker that has trained says which version its copy is of; the freshest is uploaded to the parameter
servers. If that fails the next attempt prefers another's, and comes back to it if nobody else has one. Where
there is no copy, as at first, the model begins with the first values of one worker. Nobody but that worker
gives servers a model: they would take a part of each one's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.home.base import Origin
from elastic_runtime.master.members import Members
from elastic_runtime.rpc import master_pb2

log = logging.getLogger(__name__)

OFFER_SECONDS = 30.0
"""How long a fresher copy than those offered is waited for."""
ONLY_OFFER_SECONDS = 90.0
"""How much longer where nobody has offered one: without it the model is back at its beginning."""
BACK_SECONDS = 10.0
"""How much longer still: whoever has one may just have lost its line to the master, and not be back yet."""
SILENCE_SECONDS = 30.0
"""After so long without any answer it is said what is waited for."""
UPLOAD_SECONDS = 200.0
"""Longer than the worker itself waits for a parameter server, so that it can say why it failed."""
UPLOADS = 3
"""So often the copy of one worker is tried before a new beginning."""


class Copies:
    """The workers' offers, and the decision whose is used."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._offers: dict[str, tuple[int, asyncio.Future[bool]]] = {}
        self._failures: Counter[str] = Counter()  # uploads of each worker's copy
        self._era, self._uploader = 0, ""
        self._changed = asyncio.Event()
        self._order: master_pb2.Order | None = None  # while copies are looked for
        self._uploaded: asyncio.Future[None] | None = None

    async def use_freshest(
        self,
        era: int,
        addresses: Sequence[str],
        *,
        void: Callable[[], bool] = lambda: False,
        is_first: bool = True,
    ) -> Origin:
        """Have the freshest copy uploaded, or a worker's first values if nobody has one, as at first.

        An upload that fails may have reached some parameter servers: it is an error, and the next attempt
        needs an era of its own. So it does if this one is `void` before any worker has answered.
        """
        self._offers.clear()
        self._era = era
        offer = master_pb2.OfferCopyOrder(era=era, ps_addresses=addresses)
        self._order = master_pb2.Order(offer_copy=offer)
        self._members.tell_workers(self._order)
        await self._until(lambda: bool(self._offers) or void(), SILENCE_SECONDS)
        if not self._offers and not void():
            log.info("the parameter servers wait for a worker that brings them the model")
        await self._until(lambda: bool(self._offers) or void())  # without any worker there is no hurry
        await self._until(lambda: not self._silent(), OFFER_SECONDS)
        await self._until(lambda: self._any_fit() or not self._silent(), ONLY_OFFER_SECONDS)
        if not is_first:
            await self._until(lambda: self._any_fit() or void(), BACK_SECONDS)
        self._order = None
        return await self._upload_best()

    def joined(self, worker: str) -> None:
        """A worker is there (again): it may have a copy too."""
        if self._order is not None:
            self._members.send(worker, self._order)

    async def offered(self, worker: str, version: int, era: int) -> bool:
        """A worker holds `version` (-1: none); answered once it is decided whose copy begins that era."""
        if self._order is None or era != self._era:
            return False  # too late
        decision: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._offers[worker] = (version, decision)
        self._changed.set()
        return await decision

    def uploaded(self, worker: str, era: int, error: str) -> None:
        """A worker is through; one that an earlier attempt chose may be so only now."""
        is_chosen = (worker, era) == (self._uploader, self._era)
        if is_chosen and self._uploaded is not None and not self._uploaded.done():
            if error:
                self._uploaded.set_exception(ElasticError(error))
            else:
                self._uploaded.set_result(None)

    def lost(self, worker: str) -> None:
        """A worker is gone: it need not be waited for."""
        self._changed.set()
        self.uploaded(worker, self._era, "it was lost on the way")

    def look_again(self) -> None:
        """The attempt may be void."""
        self._changed.set()

    def _silent(self) -> set[str]:
        """Workers that may have a copy and have not answered yet."""
        trained = {c.member.name for c in self._members.of(master_pb2.ROLE_WORKER) if c.member.era}
        return trained - self._offers.keys()

    async def _until(self, condition: Callable[[], bool], seconds: float | None = None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()

    def _any_fit(self) -> bool:
        return any(map(self._fit, self._offers))

    def _fit(self, name: str) -> bool:
        """Whether there is a copy that may be used."""
        return self._offers[name][0] >= 0 and self._failures[name] < UPLOADS

    def _best_first(self) -> list[str]:
        """Fit copies before all else; what has failed least first, and of that the freshest."""
        return sorted(
            self._offers, key=lambda name: (not self._fit(name), self._failures[name], -self._offers[name][0])
        )

    async def _upload_best(self) -> Origin:
        try:
            for name in self._best_first():
                version, decision = self._offers[name]
                if not decision.done():  # its worker is still there
                    await self._upload(name, version, decision)
                    return Origin("copy", version=version) if version >= 0 else Origin("fresh")
            raise ElasticError("those that were to hold it, or to give it, are gone")
        finally:
            for _, decision in self._offers.values():
                if not decision.done():
                    decision.set_result(False)

    async def _upload(self, name: str, version: int, decision: asyncio.Future[bool]) -> None:
        self._uploader, self._uploaded = name, asyncio.get_running_loop().create_future()
        decision.set_result(True)
        try:
            await asyncio.wait_for(self._uploaded, UPLOAD_SECONDS)
        except (ElasticError, TimeoutError) as problem:
            self._failures[name] += 1
            mine = f"copy of version {version}" if version >= 0 else "new model"
            what = f"the {mine} could not be used: {problem or 'no answer'}"
            raise ElasticError(what, where=name) from problem
        else:
            self._failures.clear()
        finally:
            self._uploader = ""

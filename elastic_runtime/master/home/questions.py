"""What a home asks the worker that holds the model, and its answer, which comes by another call."""

from __future__ import annotations

import asyncio

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.members import Members
from elastic_runtime.rpc import master_pb2

ANSWER_SECONDS = 120.0


class Questions:
    """Open questions to one worker at a time."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._open: dict[str, tuple[str, asyncio.Future[int]]] = {}

    async def snapshot(self, member: str) -> int:
        """Have it keep a copy of the model as it is now; the copy's version."""
        return await self._ask(member, "snapshot", master_pb2.Order(snapshot=master_pb2.SnapshotOrder()))

    async def save(self, member: str, version: int, directory: str) -> int:
        """Have it write its snapshot of `version` there."""
        order = master_pb2.SaveOrder(version=version, directory=directory)
        return await self._ask(member, "save", master_pb2.Order(save=order))

    def reached(self, version: int) -> None:
        """It took the snapshot asked for."""
        self._resolve("snapshot", version)

    def saved(self, version: int, error: str) -> None:
        """It wrote what was asked for, or could not."""
        self._resolve("save", version, error)

    def lost(self, member: str) -> None:
        """Who waits for this member's answer waits in vain."""
        for asked, answer in self._open.values():
            if asked == member and not answer.done():
                answer.set_exception(ElasticError("the worker that holds the model is gone", where=member))

    async def _ask(self, member: str, what: str, order: master_pb2.Order) -> int:
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._open[what] = member, answer
        try:
            if not self._members.send(member, order):
                raise ElasticError("the worker that holds the model is away", where=member)
            return await asyncio.wait_for(answer, ANSWER_SECONDS)
        except TimeoutError:
            silence = f"the worker that holds the model did not answer for {ANSWER_SECONDS:g} s"
            raise ElasticError(silence, where=member) from None
        finally:
            del self._open[what]

    def _resolve(self, what: str, version: int, error: str = "") -> None:
        _, answer = self._open.get(what, ("", None))
        if answer is not None and not answer.done():
            if error:
                answer.set_exception(ElasticError(error))
            else:
                answer.set_result(version)

"""What a home asks the worker that holds the model, and its answer, which comes by another call.

Of each kind one question is open at a time, and the next one waits for its turn: what a worker says then
answers that one, or, if it names another version, a question that nobody asks any longer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.members import Members
from elastic_runtime.rpc import master_pb2

ANSWER_SECONDS = 120.0


@dataclass(eq=False)
class _Kind:
    """The questions of one kind: whose turn it is, and of whom and what the open one is asked."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    member: str = ""
    version: int | None = None
    answer: asyncio.Future[int] | None = None

    def resolve(self, answer: int | ElasticError) -> None:
        """Answer the open question, if there is one."""
        if self.answer is None or self.answer.done():
            return
        if isinstance(answer, ElasticError):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class Questions:
    """The open questions: for a snapshot, and to write one."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._snapshot, self._save = _Kind(), _Kind()

    async def snapshot(self, member: str) -> int:
        """Have it keep a copy of the model as it is now; the copy's version."""
        return await self._ask(
            self._snapshot, member, master_pb2.Order(snapshot=master_pb2.SnapshotOrder()), None
        )

    async def save(self, member: str, version: int, directory: str) -> int:
        """Have it write its snapshot of `version` there."""
        order = master_pb2.SaveOrder(version=version, directory=directory)
        return await self._ask(self._save, member, master_pb2.Order(save=order), version)

    def reached(self, version: int) -> None:
        """It took the snapshot asked for."""
        self._snapshot.resolve(version)

    def saved(self, version: int, error: str) -> None:
        """It wrote what was asked for, or could not."""
        if version == self._save.version:
            self._save.resolve(ElasticError(error) if error else version)

    def lost(self, member: str) -> None:
        """Who waits for this member's answer waits in vain."""
        for kind in (self._snapshot, self._save):
            if kind.member == member:
                kind.resolve(ElasticError("the worker that holds the model is gone", where=member))

    async def _ask(self, kind: _Kind, member: str, order: master_pb2.Order, version: int | None) -> int:
        async with kind.turn:
            answer = asyncio.get_running_loop().create_future()
            kind.member, kind.version, kind.answer = member, version, answer
            try:
                if not self._members.send(member, order):
                    raise ElasticError("the worker that holds the model is away", where=member)
                return await asyncio.wait_for(answer, ANSWER_SECONDS)
            except TimeoutError:
                silence = f"the worker that holds the model did not answer for {ANSWER_SECONDS:g} s"
                raise ElasticError(silence, where=member) from None
            finally:
                kind.answer = None

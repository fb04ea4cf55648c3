"""The master's gRPC face: messages in, the front's answers out. No decisions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Any, Protocol, TypeVar

import grpc.aio

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.members import Connection
from elastic_runtime.rpc import master_pb2, master_pb2_grpc
from elastic_runtime.rpc.membership import WELCOME

Context = grpc.aio.ServicerContext[Any, Any]
_Answer = TypeVar("_Answer")


class Answers(Protocol):
    """What the application answers; each call returns once what it rests on is durable."""

    def joined(self, member: master_pb2.Member) -> Connection:
        """A member holds a connection open from now on."""

    def parted(self, connection: Connection) -> None:
        """Its connection ended."""

    def settings(self) -> str:
        """The job's specification as JSON."""

    async def lease(self, request: master_pb2.LeaseRequest) -> master_pb2.LeaseReply:
        """Work, or why there is none."""

    async def report(self, request: master_pb2.ReportRequest) -> master_pb2.ReportReply:
        """What became of a lease."""

    async def reached(self, request: master_pb2.ReachedRequest) -> None:
        """A version's snapshot was taken."""

    async def saved(self, request: master_pb2.SavedRequest) -> None:
        """A worker wrote a checkpoint, or could not."""

    async def left(self, request: master_pb2.LeaveRequest) -> None:
        """A member says goodbye."""

    async def copy(self, request: master_pb2.CopyRequest) -> bool:
        """Whether this worker shall upload its copy of the model."""

    async def uploaded(self, request: master_pb2.UploadedRequest) -> None:
        """The chosen copy is there."""

    async def world(self, request: master_pb2.WorldRequest) -> master_pb2.WorldReply:
        """A worker's place in the next world of AllReduce."""

    def status(self) -> master_pb2.StatusReply:
        """The job as it stands."""

    def stop(self, reason: str) -> None:
        """Drain, save and end."""


class Service(master_pb2_grpc.MasterServicer):
    """`Master` of master.proto."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def Join(self, request: master_pb2.Member, context: Context) -> AsyncIterator[master_pb2.Order]:
        """Stream orders until the member or the master ends the call."""
        connection = self._answers.joined(request)
        try:
            await context.send_initial_metadata(WELCOME)  # the member's other calls begin when it comes
            while (order := await connection.orders.get()) is not None:
                yield order
        finally:
            self._answers.parted(connection)

    async def Settings(
        self, request: master_pb2.SettingsRequest, context: Context
    ) -> master_pb2.SettingsReply:
        """What the job is."""
        return master_pb2.SettingsReply(spec=self._answers.settings())

    async def Lease(self, request: master_pb2.LeaseRequest, context: Context) -> master_pb2.LeaseReply:
        """Long-poll for work."""
        return await _told(context, self._answers.lease(request))

    async def Report(self, request: master_pb2.ReportRequest, context: Context) -> master_pb2.ReportReply:
        """What became of a lease."""
        return await _told(context, self._answers.report(request))

    async def Reached(self, request: master_pb2.ReachedRequest, context: Context) -> master_pb2.Empty:
        """A snapshot was taken."""
        await _told(context, self._answers.reached(request))
        return master_pb2.Empty()

    async def Saved(self, request: master_pb2.SavedRequest, context: Context) -> master_pb2.Empty:
        """A checkpoint was written."""
        await _told(context, self._answers.saved(request))
        return master_pb2.Empty()

    async def Leave(self, request: master_pb2.LeaveRequest, context: Context) -> master_pb2.Empty:
        """Goodbye."""
        await _told(context, self._answers.left(request))
        return master_pb2.Empty()

    async def Copy(self, request: master_pb2.CopyRequest, context: Context) -> master_pb2.CopyReply:
        """Answered once it is decided whose copy is used."""
        return master_pb2.CopyReply(upload=await _told(context, self._answers.copy(request)))

    async def Uploaded(self, request: master_pb2.UploadedRequest, context: Context) -> master_pb2.Empty:
        """The copy is there."""
        await _told(context, self._answers.uploaded(request))
        return master_pb2.Empty()

    async def World(self, request: master_pb2.WorldRequest, context: Context) -> master_pb2.WorldReply:
        """Long-poll for a place in the next world."""
        return await _told(context, self._answers.world(request))

    async def Status(self, request: master_pb2.StatusRequest, context: Context) -> master_pb2.StatusReply:
        """The job as it stands."""
        return self._answers.status()

    async def Stop(self, request: master_pb2.StopRequest, context: Context) -> master_pb2.Empty:
        """Drain, save and end."""
        self._answers.stop(request.reason or "asked to stop")
        return master_pb2.Empty()


async def _told(context: Context, answer: Awaitable[_Answer]) -> _Answer:
    """The answer, or the word that there is none now: what could not be made durable is asked again.

    So a member waits until the journal can be written, or finds the master that has taken over.
    """
    try:
        return await answer
    except ElasticError as problem:
        return await context.abort(grpc.StatusCode.UNAVAILABLE, str(problem))

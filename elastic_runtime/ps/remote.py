"""One parameter server as a worker sees it, with the part of each buffer that lies there.

Sends and fills parts of the worker's own flat buffers in chunks. A server that cannot be reached is
`PSUnavailable`; what it will not do is `PSRefused`, but for a push, whose reply the caller must look at.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import grpc
import numpy as np

from elastic_runtime.errors import ElasticError
from elastic_runtime.ps.copies import CHUNK, chunks_of
from elastic_runtime.ps.rows import Rows
from elastic_runtime.rpc import ps_pb2 as wire
from elastic_runtime.rpc.channel import connect
from elastic_runtime.rpc.layout import part
from elastic_runtime.rpc.ps_pb2 import Verdict
from elastic_runtime.rpc.ps_pb2_grpc import ParameterServerStub

_Reply = TypeVar("_Reply", wire.InitializeReply, wire.PullReply, wire.PullRowsReply, wire.ControlReply)
_DATA = "/elasticdl.v1.ParameterData/"


class Reason(enum.Enum):
    """Why something was not done."""

    STALE = Verdict.STALE
    ERA = Verdict.WRONG_ERA
    NOT_INITIALISED = Verdict.NOT_INITIALISED
    MISFIT = Verdict.MISFIT
    NONFINITE = Verdict.NONFINITE
    TIMED_OUT = Verdict.TIMED_OUT
    NO_SNAPSHOT = Verdict.NO_SNAPSHOT
    ENDING = Verdict.ENDING
    FAILED = Verdict.FAILED


class PSUnavailable(ElasticError):
    """A parameter server cannot be reached; trying again is safe."""


class PSRefused(ElasticError):
    """A parameter server will not do it, for a reason."""

    def __init__(
        self, what: str, *, where: str = "", remedy: str = "", reason: Reason = Reason.FAILED
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.reason = reason


class Remote:
    """One parameter server and the part of each buffer that lies there."""

    def __init__(self, address: str, index: int, parts: int, token: str, timeout: float) -> None:
        self.address, self.index, self._parts, self._timeout = address, index, parts, timeout
        self.channel = connect(address, token=token)
        self._control = ParameterServerStub(self.channel)  # type: ignore[no-untyped-call]
        channel: Any = self.channel  # its type knows no calls of raw bytes
        self._initialize = channel.stream_unary(_DATA + "Initialize")
        self._push = channel.stream_unary(_DATA + "Push")
        self._pull = channel.unary_stream(_DATA + "Pull")
        self._pull_rows = channel.stream_stream(_DATA + "PullRows")

    def initialize(
        self, request: wire.InitializeRequest, weights: np.ndarray, state: np.ndarray
    ) -> wire.InitializeReply:
        """Bring this server its part of a model."""
        mine = wire.InitializeRequest(index=self.index, parts=self._parts)
        mine.MergeFrom(request)
        content = self._call(self._initialize, _stream(mine, self._part(weights), self._part(state)))
        return self._accepted(wire.InitializeReply.FromString(content))

    def push(
        self,
        request: wire.PushRequest,
        version: int,
        gradient: np.ndarray,
        delta: np.ndarray,
        rows: Mapping[str, Rows],
    ) -> wire.PushReply:
        """Bring this server its part of a gradient; the reply may be a refusal."""
        mine = wire.PushRequest()
        mine.CopyFrom(request)
        mine.version = version
        buffers = [self._part(gradient), self._part(delta)]
        for name, (ids, values) in rows.items():
            here = self.holds(ids)
            mine.rows.add(table=name, count=int(here.sum()))
            buffers += [ids[here], values[here]]
        return wire.PushReply.FromString(self._call(self._push, _stream(mine, *buffers)))

    def pull(
        self, request: wire.PullRequest, have_version: int, weights: np.ndarray, state: np.ndarray
    ) -> wire.PullReply:
        """Fill this server's part of the buffers, unless it has `have_version` still."""
        mine = wire.PullRequest(have_version=have_version)
        mine.MergeFrom(request)
        try:
            replies = self._pull(mine.SerializeToString(), timeout=self._timeout)
            reply = self._accepted(wire.PullReply.FromString(next(replies)))
            if not reply.unchanged:
                for buffer in (weights, state):
                    _fill(self._part(buffer), replies)
            next(replies, None)
        except grpc.RpcError as error:
            raise self._unavailable(error) from None
        return reply

    def pull_rows(self, request: wire.PullRowsRequest, ids: np.ndarray, values: np.ndarray) -> None:
        """Fill the rows of those ids that lie on this server."""
        here = self.holds(ids)
        mine = wire.PullRowsRequest(count=int(here.sum()))
        mine.MergeFrom(request)
        found = np.empty((mine.count, values.shape[1]), values.dtype)
        try:
            replies = self._pull_rows(_stream(mine, ids[here]), timeout=self._timeout)
            self._accepted(wire.PullRowsReply.FromString(next(replies)))
            _fill(found, replies)
        except grpc.RpcError as error:
            raise self._unavailable(error) from None
        values[here] = found

    def holds(self, ids: np.ndarray) -> np.ndarray:
        """Which of these rows lie on this server."""
        mine: np.ndarray = ids % self._parts == self.index
        return mine

    def control(self, method: str, request: Any) -> wire.ControlReply:
        """One of the calls without parameters."""
        reply: wire.ControlReply = self._call(getattr(self._control, method), request)
        return self._accepted(reply)

    def status(self) -> wire.PSStatusReply:
        """What this server holds."""
        reply: wire.PSStatusReply = self._call(self._control.Status, wire.PSStatusRequest())
        return reply

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise self._unavailable(error) from None

    def _part(self, buffer: np.ndarray) -> np.ndarray:
        assert buffer.dtype == np.float32, buffer.dtype
        start, end = part(buffer.size, self.index, self._parts)
        return buffer[start:end]

    def _accepted(self, reply: _Reply) -> _Reply:
        if reply.verdict != Verdict.ACCEPTED:
            raise PSRefused(
                reply.reason, where=f"parameter server {self.index}", reason=reason_of(reply.verdict)
            )
        return reply

    def _unavailable(self, error: grpc.RpcError) -> ElasticError:
        where, what = (
            f"parameter server {self.index} at {self.address}",
            f"{error.code().name}: {error.details()}",
        )
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            return PSRefused(what, where=where, remedy="all processes of a job need its token")
        return PSUnavailable(what, where=where)


def reason_of(verdict: int) -> Reason:
    """The reason of a verdict that is not acceptance."""
    return Reason(verdict) if verdict in {reason.value for reason in Reason} else Reason.FAILED


def _stream(first: Any, *buffers: np.ndarray) -> Iterator[bytes]:
    yield first.SerializeToString()
    for buffer in buffers:
        yield from chunks_of(buffer)


def _fill(buffer: np.ndarray, chunks: Iterator[bytes]) -> None:
    raw = buffer.reshape(-1).view(np.uint8).data
    for start in range(0, len(raw), CHUNK):
        raw[start : start + CHUNK] = next(chunks)

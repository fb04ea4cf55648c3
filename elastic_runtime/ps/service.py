"""A shard on the wire: each call of `ps.proto`, with parameters as raw chunks that are never parsed.

Chunks that come in are kept as they are and read in place by the kernels; those that go out are the shard's
own copies. Whatever is wrong with a request is an answer with a verdict and a reason, never a broken
server.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from elastic_runtime.errors import ElasticError
from elastic_runtime.ps import kernels
from elastic_runtime.ps.copies import CHUNK, chunks_of
from elastic_runtime.ps.model import Model
from elastic_runtime.ps.pushes import Merge, Push, PushId
from elastic_runtime.ps.rows import RowGradients, TableSpec
from elastic_runtime.ps.shard import Refused, Shard, refusal
from elastic_runtime.rpc import ps_pb2 as wire
from elastic_runtime.rpc.layout import Layout
from elastic_runtime.rpc.ps_pb2 import Verdict
from elastic_runtime.rpc.ps_pb2_grpc import ParameterServerServicer, add_ParameterServerServicer_to_server

DATA = "elasticdl.v1.ParameterData"
_Message = TypeVar(
    "_Message", wire.InitializeRequest, wire.PushRequest, wire.PullRequest, wire.PullRowsRequest
)


def add_to_server(shard: Shard, server: grpc.Server) -> None:
    """Let this server answer for the shard."""
    data = ParameterData(shard)
    handlers = {
        "Initialize": grpc.stream_unary_rpc_method_handler(data.initialize),
        "Push": grpc.stream_unary_rpc_method_handler(data.push),
        "Pull": grpc.unary_stream_rpc_method_handler(data.pull),
        "PullRows": grpc.stream_stream_rpc_method_handler(data.pull_rows),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(DATA, handlers),))
    add_ParameterServerServicer_to_server(Control(shard), server)  # type: ignore[no-untyped-call]


class ParameterData:
    """The calls that carry parameters: a first message, then raw chunks."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def initialize(self, requests: Iterator[bytes], _: grpc.ServicerContext) -> bytes:
        """A worker brings the model, or joins those that train the one held here."""
        try:
            request, fresh = _parse(wire.InitializeRequest, next(requests, b"")), False
            model = self._model(request, requests)
            if request.join:
                self._shard.join(model, era=request.era)
            else:
                fresh = self._shard.initialize(model, version=request.version, era=request.era)
        except (ElasticError, Refused, MemoryError) as error:
            no = refusal(error)
            return wire.InitializeReply(verdict=no.verdict, reason=no.reason).SerializeToString()
        version = self._shard.store.version
        reply = wire.InitializeReply(verdict=Verdict.ACCEPTED, already=not fresh, version=version)
        return reply.SerializeToString()

    def push(self, requests: Iterator[bytes], _: grpc.ServicerContext) -> bytes:
        """A worker brings a gradient; answered when its version is applied."""
        try:
            request = _parse(wire.PushRequest, next(requests, b""))
            outcome = self._shard.precheck(_push(request))
            if outcome is None:
                outcome = self._shard.push(self._with_content(_push(request), request.rows, requests))
        except Refused as no:
            return wire.PushReply(verdict=no.verdict, reason=no.reason).SerializeToString()
        reply = wire.PushReply(verdict=outcome.verdict, reason=outcome.reason, merge=_told(outcome.merge))
        return reply.SerializeToString()

    def pull(self, content: bytes, _: grpc.ServicerContext) -> Iterator[bytes]:
        """A worker fetches the model."""
        try:
            request = _parse(wire.PullRequest, content)
            taken = self._shard.pull(
                era=request.era,
                min_version=request.min_version,
                snapshot=request.snapshot,
                wait=request.wait_seconds,
                merge=_heard(request),
            )
        except Refused as no:
            yield wire.PullReply(verdict=no.verdict, reason=no.reason).SerializeToString()
            return
        unchanged = request.have_version == taken.version and not request.snapshot
        reply = wire.PullReply(
            verdict=Verdict.ACCEPTED, version=taken.version, unchanged=unchanged, merge=_told(taken.merge)
        )
        yield reply.SerializeToString()
        if not unchanged:
            yield from taken.weights.chunks()
            yield from taken.state.chunks()

    def pull_rows(self, requests: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        """A worker fetches rows of a table."""
        try:
            request = _parse(wire.PullRowsRequest, next(requests, b""))
            ids = _joined(_chunks(requests, request.count, np.int64), np.int64)
            rows = self._shard.pull_rows(request.table, ids, era=request.era, snapshot=request.snapshot)
        except Refused as no:
            yield wire.PullRowsReply(verdict=no.verdict, reason=no.reason).SerializeToString()
            return
        yield wire.PullRowsReply(verdict=Verdict.ACCEPTED).SerializeToString()
        yield from chunks_of(rows)

    def _model(self, request: wire.InitializeRequest, chunks: Iterator[bytes]) -> Model:
        settings = self._shard.store.settings
        if (request.index, request.parts) != (settings.index, settings.parts):
            here = f"{settings.index} of {settings.parts}"
            raise Refused(
                Verdict.MISFIT, f"part {request.index} of {request.parts} was sent to server {here}"
            )
        try:
            layout, config = Layout.from_json(request.layout), json.loads(request.optimizer)
            if not isinstance(config, dict):
                raise TypeError("the optimizer is no mapping")
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(Verdict.MISFIT, f"malformed: {error!r}") from None
        buffers = []
        for count in (layout.weight_count, layout.state_count):
            place = self._shard.part_of(0 if request.join else count)
            buffers.append(_joined(_chunks(chunks, place.stop - place.start)))
        _require_end(chunks)
        specs = [
            TableSpec(each.name, each.dimension, each.initializer, each.scale) for each in request.tables
        ]
        return Model(layout, config, buffers[0], buffers[1], specs=specs, seed=request.seed)

    def _with_content(self, push: Push, tables: Iterable[wire.Rows], chunks: Iterator[bytes]) -> Push:
        """The push with its gradients, which are looked through while the next ones travel."""
        model, finite = self._shard.store.model, True
        assert model is not None, "prechecked"

        def look(values: np.ndarray) -> None:
            nonlocal finite
            finite = finite and kernels.all_finite(values)

        gradient = _chunks(chunks, model.weights.size, look=look)
        delta = _chunks(chunks, model.state.size, look=look)
        rows = []
        for table in tables:
            ids = _joined(_chunks(chunks, table.count, np.int64), np.int64)
            dimension = _dimension(model, table.table)
            values = _joined(_chunks(chunks, table.count * dimension, look=look))
            rows.append(RowGradients(table.table, ids, values.reshape(-1, dimension)))
        _require_end(chunks)
        return dataclasses.replace(push, gradient=gradient, delta=delta, rows=rows, finite=finite)


class Control(ParameterServerServicer):
    """The calls of the master."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def Save(self, request: wire.SaveRequest, _: object) -> wire.ControlReply:  # noqa: N802
        """Write a part of a checkpoint."""
        directory, era = pathlib.Path(request.directory), request.era or None
        return _answer(lambda: self._shard.save(directory, request.snapshot, era))

    def Restore(self, request: wire.RestoreRequest, _: object) -> wire.ControlReply:  # noqa: N802
        """Read a part of a checkpoint."""
        return _answer(lambda: self._shard.restore(pathlib.Path(request.directory), request.era))

    def Snapshot(self, request: wire.SnapshotRequest, _: object) -> wire.ControlReply:  # noqa: N802
        """Keep the present model."""

        def take() -> wire.ControlReply:
            taken = self._shard.snapshot(request.version, era=request.era or None, merge=_heard(request))
            return wire.ControlReply(version=taken.version, era=taken.era, merge=_told(taken.merge))

        return _answer(take)

    def DropSnapshot(self, request: wire.DropSnapshotRequest, _: object) -> wire.ControlReply:  # noqa: N802
        """Forget a snapshot."""
        return _answer(lambda: self._shard.drop_snapshot(request.version, request.era or None))

    def SetSenders(self, request: wire.SetSendersRequest, _: object) -> wire.ControlReply:  # noqa: N802
        """Learn who trains."""
        return _answer(lambda: self._shard.set_senders(request.generation, request.workers))

    def Status(self, _request: wire.PSStatusRequest, _: object) -> wire.PSStatusReply:  # noqa: N802
        """What is held."""
        store = self._shard.store
        return wire.PSStatusReply(
            index=store.settings.index,
            parts=store.settings.parts,
            initialised=store.model is not None,
            version=store.version,
            era=store.era,
            waiting=store.waiting,
            snapshots=list(store.snapshots),
            **store.counts,
        )


def _answer(act: Callable[[], wire.ControlReply | int | None]) -> wire.ControlReply:
    try:
        done = act()
    except (ElasticError, Refused, MemoryError) as error:
        no = refusal(error)
        return wire.ControlReply(verdict=no.verdict, reason=no.reason)
    reply = done if isinstance(done, wire.ControlReply) else wire.ControlReply(version=done or 0)
    reply.verdict = Verdict.ACCEPTED
    return reply


def _heard(request: wire.PushRequest | wire.PullRequest | wire.SnapshotRequest) -> Merge | None:
    """What server 0 has told whoever asks."""
    return Merge(request.merge.version, tuple(request.merge.workers)) if request.HasField("merge") else None


def _told(merge: Merge | None) -> wire.Merge | None:
    return wire.Merge(version=merge.version, workers=merge.workers) if merge is not None else None


def _push(request: wire.PushRequest) -> Push:
    return Push(
        id=PushId(request.worker, request.incarnation, request.seq),
        era=request.era,
        version=request.version,
        learning_rate=request.learning_rate,
        gradient=(),
        merge=_heard(request),
    )


def _dimension(model: Model, table: str) -> int:
    if table not in model.tables:
        raise Refused(Verdict.MISFIT, f"no table {table!r}; known: {', '.join(model.tables) or 'none'}")
    return model.tables[table].spec.dimension


def _parse(kind: type[_Message], content: bytes) -> _Message:
    try:
        return kind.FromString(content)
    except DecodeError:
        raise Refused(Verdict.MISFIT, f"malformed: no {kind.__name__}") from None


def _chunks(
    chunks: Iterator[bytes],
    count: int,
    dtype: type[np.number[Any]] = np.float32,
    *,
    look: Callable[[np.ndarray], None] = lambda _: None,
) -> list[np.ndarray]:
    """The next chunks, which must hold this many values."""
    values: list[np.ndarray] = []
    left = count * np.dtype(dtype).itemsize
    while left > 0:
        chunk = next(chunks, b"")
        if len(chunk) != min(left, CHUNK):
            raise Refused(Verdict.MISFIT, f"malformed: {left} bytes are missing, here came {len(chunk)}")
        values.append(np.frombuffer(chunk, dtype))
        look(values[-1])
        left -= len(chunk)
    return values


def _joined(chunks: list[np.ndarray], dtype: type[np.number[Any]] = np.float32) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *chunks])


def _require_end(chunks: Iterator[bytes]) -> None:
    if next(chunks, None) is not None:
        raise Refused(Verdict.MISFIT, "malformed: more values than the model has here")

"""How a worker reaches the parameters: one client for all servers, over the worker's own flat buffers.

Each server holds a part of the buffers; the client cuts and joins. In synchronous training server 0 decides
on a push and the others follow it; in asynchronous training all are pushed at once. A pull joins parts of one
version where that can be had, and tells those behind what server 0 said of it. A server that cannot be
reached is `PSUnavailable`, what is not accepted on its merits is `PSRefused` or, for a push, a
`PushResult`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from elastic_runtime.ps.memory import keep_freed_memory
from elastic_runtime.ps.remote import PSRefused, PSUnavailable, Reason, Remote, reason_of
from elastic_runtime.ps.rows import Rows, TableSpec
from elastic_runtime.rpc import ps_pb2 as wire
from elastic_runtime.rpc.layout import Layout
from elastic_runtime.rpc.ps_pb2 import Verdict

__all__ = [
    "InitializeResult",
    "PSClient",
    "PSRefused",
    "PSUnavailable",
    "PushResult",
    "Reason",
    "Rows",
    "TableSpec",
]

_Result = TypeVar("_Result")
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class InitializeResult:
    """Whether another worker was first (then pull), and the version held now."""

    already: bool
    version: int


@dataclass(frozen=True, slots=True)
class PushResult:
    """The version the push became part of; or, not accepted, why nothing was applied."""

    accepted: bool
    version: int
    reason: Reason | None = None
    detail: str = ""


class PSClient:
    """The parameter servers of a job, for one worker's one thread."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        worker: str,
        incarnation: str,
        token: str,
        era: int,
        use_async: bool,
        timeout: float = 180.0,
    ) -> None:
        """`addresses` by the servers' indices; `timeout` bounds each call, waiting for others included."""
        keep_freed_memory()
        self._servers = [Remote(at, i, len(addresses), token, timeout) for i, at in enumerate(addresses)]
        self._pool = futures.ThreadPoolExecutor(len(addresses), thread_name_prefix="ps-client")
        self._worker, self._incarnation, self._seq = worker, incarnation, 0
        self.era, self._use_async = era, use_async
        self._version, self._held = -1, [-1] * len(addresses)
        self._dimensions: dict[str, int] = {}
        self._abandoned = False

    def abandon(self) -> None:
        """End a call under way and let none begin, from any thread: these servers' model is no more."""
        self._abandoned = True
        for server in self._servers:
            server.channel.close()

    def close(self) -> None:
        """Hang up."""
        for server in self._servers:
            server.channel.close()
        self._pool.shutdown()

    def initialize(
        self,
        layout: Layout,
        weights: np.ndarray,
        state: np.ndarray,
        optimizer: Mapping[str, object],
        *,
        version: int = 0,
        seed: int = 0,
        tables: Sequence[TableSpec] = (),
    ) -> InitializeResult:
        """Bring this worker's model; the first worker's is taken, later ones must be alike.

        `seed` makes the first values of rows of `tables`.
        """
        request = self._told(layout, optimizer, tables)
        request.version, request.seed = version, seed
        replies = self._all(lambda server: server.initialize(request, weights, state))
        return InitializeResult(any(reply.already for reply in replies), replies[0].version)

    def join(
        self, layout: Layout, optimizer: Mapping[str, object], *, tables: Sequence[TableSpec] = ()
    ) -> None:
        """Take part in the training of the model that all servers hold, which must be like this worker's."""
        request, nothing = self._told(layout, optimizer, tables), np.empty(0, np.float32)
        request.join = True
        self._all(lambda server: server.initialize(request, nothing, nothing))

    def pull(
        self,
        weights: np.ndarray,
        state: np.ndarray,
        *,
        have_version: int = -1,
        min_version: int = 0,
        snapshot: int = 0,
        wait: float = 60.0,
    ) -> int:
        """Fill the buffers in place, unless `have_version` is still present; the version they have.

        Waits up to `wait` seconds for `min_version` or `snapshot`. After an error they may hold a mixture.
        """
        request = wire.PullRequest(
            era=self.era, min_version=min_version, snapshot=snapshot, wait_seconds=wait
        )
        held = list(self._held) if have_version == self._version else [-1] * len(self._servers)
        self._version = -1

        def fetch(server: Remote) -> wire.PullReply:
            reply = server.pull(request, held[server.index], weights, state)
            held[server.index] = reply.version
            return reply

        newest = self._all(fetch)[0]
        version = newest.version
        if not (self._use_async or snapshot):
            version = self._catch_up(request, newest, held, fetch)
        if not snapshot:
            self._version, self._held = version, held
        return version

    def push(
        self,
        gradient: np.ndarray,
        state_delta: np.ndarray,
        *,
        version: int,
        learning_rate: float,
        rows: Mapping[str, Rows] | None = None,
        retry: bool = False,
    ) -> PushResult:
        """Bring a gradient computed on `version` and what changed of the state; waits until it is applied.

        `rows` are the gradients of rows of tables, by table; they are part of the same push.
        After `PSUnavailable`, call again with the same arguments and `retry`: it will not be applied twice.
        """
        self._seq += not retry
        request = wire.PushRequest(
            worker=self._worker,
            incarnation=self._incarnation,
            seq=self._seq,
            era=self.era,
            version=version,
            learning_rate=learning_rate,
        )
        held = self._held if version == self._version else [version] * len(self._servers)

        def send(server: Remote) -> wire.PushReply:
            return server.push(request, held[server.index], gradient, state_delta, rows or {})

        first, *others = self._servers
        if self._use_async:
            replies = self._all(send)
        else:
            replies = self._each([first], send)
            if others and replies[0].verdict == Verdict.ACCEPTED:
                request.merge.CopyFrom(replies[0].merge)
                replies += self._each(others, send)
        refused = next((reply for reply in replies if reply.verdict != Verdict.ACCEPTED), None)
        if refused is not None:
            return PushResult(False, version, reason_of(refused.verdict), refused.reason)
        return PushResult(True, replies[0].merge.version)

    def pull_rows(self, table: str, ids: np.ndarray, *, snapshot: int = 0) -> np.ndarray:
        """The rows of these ids, one for each, as they are now or at a snapshot."""
        values = np.empty((ids.size, self._dimensions[table]), np.float32)
        request = wire.PullRowsRequest(era=self.era, table=table, snapshot=snapshot)
        self._all(lambda server: server.pull_rows(request, ids, values))
        return values

    def snapshot(self) -> int:
        """Keep the present model on all servers; under which version."""
        first, *others = self._servers
        taken = first.control("Snapshot", wire.SnapshotRequest())
        request = wire.SnapshotRequest(version=taken.version, era=taken.era, merge=taken.merge)
        self._each(others, lambda server: server.control("Snapshot", request))
        return taken.version

    def drop_snapshot(self, version: int) -> None:
        """Forget a snapshot."""
        request = wire.DropSnapshotRequest(version=version, era=self.era)
        self._all(lambda server: server.control("DropSnapshot", request))

    def save(self, snapshot: int, directory: str) -> int:
        """Have every server write its part of a checkpoint, of a snapshot or (0) of now; its version."""
        version = snapshot or self.snapshot()
        request = wire.SaveRequest(snapshot=version, directory=directory, era=self.era)
        try:
            self._all(lambda server: server.control("Save", request))
        finally:
            if not snapshot:
                self.drop_snapshot(version)
        return version

    def restore(self, directory: str, era: int) -> int:
        """Have every server read its part of a checkpoint and begin a new era with it; the version read."""
        request = wire.RestoreRequest(directory=directory, era=era)
        replies = self._all(lambda server: server.control("Restore", request))
        self.era, self._version = era, -1
        return replies[0].version

    def set_senders(self, generation: int, workers: Iterable[str]) -> None:
        """Say who trains."""
        request = wire.SetSendersRequest(generation=generation, workers=list(workers))
        self._all(lambda server: server.control("SetSenders", request))

    def status(self) -> list[wire.PSStatusReply]:
        """What each server holds."""
        return self._all(lambda server: server.status())

    def _told(
        self, layout: Layout, optimizer: Mapping[str, object], tables: Sequence[TableSpec]
    ) -> wire.InitializeRequest:
        """This worker's model without its values."""
        self._dimensions = {table.name: table.dimension for table in tables}
        return wire.InitializeRequest(
            layout=layout.to_json(),
            optimizer=json.dumps(dict(optimizer)),
            era=self.era,
            tables=[wire.TableSpec(**dataclasses.asdict(table)) for table in tables],
        )

    def _catch_up(
        self,
        request: wire.PullRequest,
        newest: wire.PullReply,
        held: list[int],
        fetch: Callable[[Remote], wire.PullReply],
    ) -> int:
        """Fetch parts anew that are behind others, which may move on meanwhile; the oldest version then.

        Server 0 goes first: what it says of a version tells the others whose gradients they may wait for.
        """
        first, *others = self._servers
        for _ in range(_ROUNDS):
            if held[0] < max(held):
                request.min_version = max(held)
                newest = self._each([first], fetch)[0]
            behind = [server for server in others if held[server.index] < newest.version]
            if not behind:
                break
            request.min_version = newest.version
            request.merge.CopyFrom(newest.merge)
            self._each(behind, fetch)
        return min(held)

    def _all(self, call: Callable[[Remote], _Result]) -> list[_Result]:
        return self._each(self._servers, call)

    def _each(self, servers: Sequence[Remote], call: Callable[[Remote], _Result]) -> list[_Result]:
        """Call these servers at once; all have ended when an error of one is raised."""
        try:
            if len(servers) == 1:
                return [call(servers[0])]
            calls = [self._pool.submit(call, server) for server in servers]
            futures.wait(calls)
            return [done.result() for done in calls]
        except ValueError:  # so gRPC says that a channel is closed
            if self._abandoned:
                raise PSUnavailable("the model is being brought back") from None
            raise

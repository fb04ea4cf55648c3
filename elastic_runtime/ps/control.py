"""How the master reaches the parameter servers: calls without parameters, on asyncio, all servers at once.

Every call has a deadline. A server that cannot be reached or will not do it is an `ElasticError` naming the
server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import grpc
import grpc.aio

from elastic_runtime.ps.remote import PSRefused, PSUnavailable, reason_of
from elastic_runtime.rpc import ps_pb2 as wire
from elastic_runtime.rpc.channel import connect_aio
from elastic_runtime.rpc.ps_pb2 import Verdict
from elastic_runtime.rpc.ps_pb2_grpc import ParameterServerStub


class PSControl:
    """The parameter servers of a job, by their indices, for the master."""

    def __init__(self, addresses: Sequence[str], *, token: str, timeout: float = 120.0) -> None:
        self._addresses, self._timeout = addresses, timeout
        self._channels = [connect_aio(address, token=token) for address in addresses]
        self._stubs = [ParameterServerStub(channel) for channel in self._channels]  # type: ignore[no-untyped-call]
        self._closed = False

    async def close(self) -> None:
        """Hang up; calls under way end as if the servers could not be reached."""
        self._closed = True
        await asyncio.gather(*(channel.close(None) for channel in self._channels))

    async def save(self, snapshot: int, directory: str, era: int = 0) -> int:
        """Have every server write its part of a checkpoint, of a snapshot or (0) of now; its version.

        The snapshot is of that era; of whichever is there, if it is 0.
        """
        version = snapshot or await self.snapshot()
        try:
            await self._all("Save", wire.SaveRequest(snapshot=version, directory=directory, era=era))
        finally:
            if not snapshot:
                await self.drop_snapshot(version)
        return version

    async def restore(self, directory: str, era: int, *, servers: Iterable[int] | None = None) -> int:
        """Have servers (all, if none are named) read their part of a checkpoint; the version read."""
        request = wire.RestoreRequest(directory=directory, era=era)
        return (await self._all("Restore", request, servers))[0].version

    async def snapshot(self) -> int:
        """Keep the present model on all servers; under which version."""
        taken = await self._call("Snapshot", wire.SnapshotRequest(), 0)
        request = wire.SnapshotRequest(version=taken.version, era=taken.era, merge=taken.merge)
        await self._all("Snapshot", request, range(1, len(self._stubs)))
        return taken.version

    async def drop_snapshot(self, version: int, era: int = 0) -> None:
        """Forget a snapshot, also where it is still to come if its era is named."""
        await self._all("DropSnapshot", wire.DropSnapshotRequest(version=version, era=era))

    async def set_senders(self, generation: int, workers: Iterable[str]) -> None:
        """Say which workers train; `generation` grows with each word."""
        await self._all("SetSenders", wire.SetSendersRequest(generation=generation, workers=list(workers)))

    async def status(self) -> list[wire.PSStatusReply]:
        """What each server holds."""
        calls = [self._reach("Status", wire.PSStatusRequest(), i) for i in range(len(self._stubs))]
        return list(await asyncio.gather(*calls))

    async def _all(
        self, method: str, request: Any, servers: Iterable[int] | None = None
    ) -> list[wire.ControlReply]:
        wanted = range(len(self._stubs)) if servers is None else servers
        results = await asyncio.gather(
            *(self._call(method, request, i) for i in wanted), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    async def _call(self, method: str, request: Any, server: int) -> wire.ControlReply:
        reply: wire.ControlReply = await self._reach(method, request, server)
        if reply.verdict != Verdict.ACCEPTED:
            raise PSRefused(reply.reason, where=self._name(server), reason=reason_of(reply.verdict))
        return reply

    async def _reach(self, method: str, request: Any, server: int) -> Any:
        try:
            return await getattr(self._stubs[server], method)(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise PSUnavailable(f"{error.code().name}: {error.details()}", where=self._name(server)) from None
        except (asyncio.CancelledError, grpc.aio.UsageError):
            caller = asyncio.current_task()
            if not self._closed or (caller and caller.cancelling()):
                raise
            raise PSUnavailable("the line was closed", where=self._name(server)) from None

    def _name(self, server: int) -> str:
        return f"parameter server {server} at {self._addresses[server]}"

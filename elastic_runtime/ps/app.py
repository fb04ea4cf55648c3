"""One parameter server as a process: binds, joins the master, serves until told to end or orphaned.

Comes in: the command line. Goes out: exit code 0 when it ended as told or for want of a master, 1 when it
could not start, 2 for a bad command line. Workers may come before the master does, and while it is away.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import signal
import socket
import threading
import uuid
from concurrent import futures
from types import FrameType

import grpc

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.observe import log as logs
from elastic_runtime.ps import service
from elastic_runtime.ps.memory import keep_freed_memory
from elastic_runtime.ps.shard import Refused, Shard
from elastic_runtime.ps.store import Settings
from elastic_runtime.rpc import channel
from elastic_runtime.rpc.master_pb2 import ROLE_PS, Member, Order, ReachedRequest, SavedRequest
from elastic_runtime.rpc.membership import MasterAway, Membership
from elastic_runtime.rpc.token import token_from_environment
from elastic_runtime.spec.entry import command_line
from elastic_runtime.spec.job import JobSpec

log = logging.getLogger("elastic_runtime.ps")
_THREADS = 2048
"""Each worker of a synchronous job keeps one waiting."""


def main() -> int:
    """Run a parameter server to its end; the exit code."""
    spec = command_line("ps")
    logs.set_up(spec.log_level)
    ParameterServer(spec).run()
    return 0


class ParameterServer:
    """The shard, its server and its membership, from start to end."""

    def __init__(self, spec: JobSpec) -> None:
        keep_freed_memory()
        self._spec, self._token = spec, token_from_environment()
        self._name = spec.pod_name or f"elasticdl-{spec.job_name}-ps-{spec.ps_id}"
        self._incarnation = uuid.uuid4().hex
        self._shard = Shard(_settings(spec), self._say_reached)
        self._end = threading.Event()
        self._reports = futures.ThreadPoolExecutor(1, thread_name_prefix="reports")
        self._membership = Membership(
            spec.master_addr,
            self._member,
            self._obey,
            orphan_timeout=spec.orphan_timeout or 30.0,
            on_orphaned=self._end.set,
            token=self._token,
        )

    def run(self) -> None:
        """Serve until told to end, or until the master has been gone too long."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        server = channel.server(threads=_THREADS, token=self._token)
        service.add_to_server(self._shard, server)
        port = channel.listen(server, self._spec.host, self._spec.port, token=self._token)
        self._address = f"{self._reachable_host()}:{port}"
        server.start()
        log.info("%s listens at %s", self._name, self._address)
        with self._membership:
            self._end.wait()
            self._shard.end()
        self._reports.shutdown(cancel_futures=True)
        server.stop(grace=0.5).wait()
        log.info("%s has ended", self._name)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        log.info("%s: ending", signal.Signals(number).name)
        self._end.set()

    def _reachable_host(self) -> str:
        if self._spec.advertise_host:
            return str(self._spec.advertise_host)
        if self._spec.host in {"0.0.0.0", "::"}:  # noqa: S104
            return os.environ.get("ELASTICDL_POD_IP") or socket.gethostname()
        return str(self._spec.host)

    def _member(self) -> Member:
        self._shard.new_master()
        store = self._shard.store
        return Member(
            role=ROLE_PS,
            name=self._name,
            index=self._spec.ps_id,
            address=self._address,
            incarnation=self._incarnation,
            pid=os.getpid(),
            state="fresh" if store.model is None else "ready",
            version=store.version,
            era=store.era,
        )

    def _obey(self, order: Order) -> None:
        """Orders that a server may get by way of its membership, beside the calls of `ps.proto`."""
        kind = order.WhichOneof("order")
        if kind == "drain":
            log.info("told to end: %s", order.drain.reason)
            self._end.set()
        elif kind == "save":
            self._reports.submit(self._save, order.save.directory, order.save.version)
        elif kind == "drop_snapshot":
            self._shard.drop_snapshot(order.drop_snapshot.version)
        elif kind == "snapshot":
            with contextlib.suppress(Refused):
                self._say_reached(self._shard.snapshot(0).version)

    def _save(self, directory: str, version: int) -> None:
        request = SavedRequest(member=self._name, version=version, directory=directory)
        try:
            request.version = self._shard.save(pathlib.Path(directory), version)
        except (ElasticError, Refused) as error:
            request.error = str(error)
        request.era = self._shard.store.era
        with contextlib.suppress(MasterAway):
            self._membership.call(lambda master: master.Saved(request, timeout=10))

    def _say_reached(self, version: int) -> None:
        """PS 0 tells the master of a snapshot, without keeping the push that led to it waiting."""
        if self._spec.ps_id == 0:
            request = ReachedRequest(member=self._name, era=self._shard.store.era, version=version)
            with contextlib.suppress(RuntimeError):  # we are ending
                self._reports.submit(self._report, request)

    def _report(self, request: ReachedRequest) -> None:
        try:
            self._membership.call(lambda master: master.Reached(request, timeout=10))
        except MasterAway:
            pass
        except grpc.RpcError as error:
            log.warning("the master was not told of version %d: %s", request.version, error.details())


def _settings(spec: JobSpec) -> Settings:
    parts = spec.num_ps_pods or 1
    if not 0 <= spec.ps_id < parts:
        raise InputError(f"there is no server {spec.ps_id} of {parts}", where="--ps_id")
    return Settings(
        index=spec.ps_id,
        parts=parts,
        use_async=spec.use_async,
        grads_to_wait=spec.grads_to_wait or 1,
        sync_version_tolerance=spec.sync_version_tolerance,
        lr_staleness_modulation=spec.lr_staleness_modulation,
        evaluation_steps=spec.evaluation_steps,
        checkpoint_steps=spec.checkpoint_steps,
        wait_seconds=spec.gradient_timeout,
    )

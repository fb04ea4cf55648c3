"""One parameter server as a process: binds, joins the master, serves until told to end or orphaned.

Comes in: the command line. Goes out: exit code 0 when it ended as told or for want of a master, 1 when it
could not start, 2 for a bad command line. Workers may come before the master does, and while it is away.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import pathlib
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Sequence
from concurrent import futures
from types import FrameType

import grpc

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.ps import service
from elastic_runtime.ps.memory import keep_freed_memory
from elastic_runtime.ps.shard import Refused, Shard
from elastic_runtime.ps.store import Settings
from elastic_runtime.rpc import channel
from elastic_runtime.rpc.master_pb2 import ROLE_PS, Member, Order, ReachedRequest, SavedRequest
from elastic_runtime.rpc.membership import MasterAway, Membership
from elastic_runtime.rpc.token import token_from_environment

log = logging.getLogger("elastic_runtime.ps")
_THREADS = 2048
"""Each worker of a synchronous job keeps one waiting."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a parameter server to its end; the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=options.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        ParameterServer(options).run()
    except ElasticError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


class ParameterServer:
    """The shard, its server and its membership, from start to end."""

    def __init__(self, options: argparse.Namespace) -> None:
        keep_freed_memory()
        self._options, self._token = options, token_from_environment()
        self._name = options.pod_name or f"elasticdl-{options.job_name}-ps-{options.ps_id}"
        self._incarnation = uuid.uuid4().hex
        self._shard = Shard(_settings(options), self._say_reached)
        self._end = threading.Event()
        self._reports = futures.ThreadPoolExecutor(1, thread_name_prefix="reports")
        self._membership = Membership(
            options.master_addr,
            self._member,
            self._obey,
            orphan_timeout=options.orphan_timeout,
            on_orphaned=self._end.set,
            token=self._token,
        )

    def run(self) -> None:
        """Serve until told to end, or until the master has been gone too long."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        server = channel.server(threads=_THREADS, token=self._token)
        service.add_to_server(self._shard, server)
        port = channel.listen(server, self._options.host, self._options.port, token=self._token)
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
        if self._options.advertise_host:
            return str(self._options.advertise_host)
        return socket.gethostname() if self._options.host in {"0.0.0.0", "::"} else str(self._options.host)  # noqa: S104

    def _member(self) -> Member:
        self._shard.new_master()
        store = self._shard.store
        return Member(
            role=ROLE_PS,
            name=self._name,
            index=self._options.ps_id,
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
                self._say_reached(self._shard.snapshot(0))

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
        if self._options.ps_id == 0:
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


def _settings(options: argparse.Namespace) -> Settings:
    if not 0 <= options.ps_id < options.num_ps_pods:
        raise InputError(f"there is no server {options.ps_id} of {options.num_ps_pods}", where="--ps_id")
    if options.grads_to_wait < 1:
        raise InputError("must be at least 1", where=f"--grads_to_wait={options.grads_to_wait}")
    return Settings(
        index=options.ps_id,
        parts=options.num_ps_pods,
        use_async=options.use_async,
        grads_to_wait=options.grads_to_wait,
        sync_version_tolerance=options.sync_version_tolerance,
        lr_staleness_modulation=options.lr_staleness_modulation,
        evaluation_steps=options.evaluation_steps,
        checkpoint_steps=options.checkpoint_steps,
        wait_seconds=options.gradient_timeout,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m elastic_runtime.ps", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--job_name", required=True)
    add("--ps_id", type=int, required=True, help="which part of the model, from 0")
    add("--num_ps_pods", type=int, default=1, help="how many parts there are")
    add("--master_addr", required=True, help="host:port, or @<file that holds it>")
    add("--pod_name", default="", help="elasticdl-<job>-ps-<id> if not given")
    add("--host", default="127.0.0.1", help="where to listen; anything but loopback needs a token")
    add("--port", type=int, default=0, help="0: any free one")
    add("--advertise_host", default="", help="where others reach it, if not at --host")
    for name in ("--use_async", "--lr_staleness_modulation"):
        add(name, type=_yes_or_no, nargs="?", const=True, default=False)
    add("--grads_to_wait", type=int, default=1, help="gradients merged into one version")
    add("--sync_version_tolerance", type=int, default=0, help="how many versions old a gradient may be")
    add("--evaluation_steps", type=int, default=0, help="keep a snapshot every so many versions")
    add(
        "--checkpoint_steps", type=int, default=0, help="keep one with optimizer slots every so many versions"
    )
    add("--gradient_timeout", type=float, default=60.0, help="seconds a gradient waits for others at most")
    add("--orphan_timeout", type=float, default=30.0, help="end after so many seconds without a master")
    add("--log_level", type=str.upper, default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    return parser


def _yes_or_no(text: str) -> bool:
    answers = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in answers:
        raise argparse.ArgumentTypeError(f"true or false, not {text!r}")
    return answers[text.lower()]

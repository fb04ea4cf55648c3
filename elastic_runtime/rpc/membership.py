"""A process's bond with its master: joins it, holds on, finds its successor, and knows when to give up.

One thread keeps `Master.Join` open; orders that come down it go to a callback on that thread. While the
master is away the thread looks for it, saying once what it waits for; after `orphan_timeout` seconds without
contact it calls `on_orphaned` and ends. Meanwhile `call` lets any other thread talk to the master: it waits
out an absence.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from elastic_runtime.errors import ElasticError
from elastic_runtime.rpc.channel import backoff, connect, resolve
from elastic_runtime.rpc.master_pb2 import Member, Order
from elastic_runtime.rpc.master_pb2_grpc import MasterStub

log = logging.getLogger(__name__)
_Reply = TypeVar("_Reply")
WELCOME = (("elasticdl-welcome", "yes"),)
"""Metadata with which a master says first that a member is joined; a refused call has none."""

_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)


class MasterAway(ElasticError):
    """The master was not there in time, or this process is ending."""


class Membership:
    """Keeps one process a member of its job, from `start` to `close`."""

    def __init__(
        self,
        address: str,
        member: Callable[[], Member],
        on_order: Callable[[Order], None],
        *,
        orphan_timeout: float,
        on_orphaned: Callable[[], None],
        token: str,
        on_connection: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`member` describes this process at each joining; callbacks run on the membership's own thread."""
        self._address, self._token = address, token
        self._member, self._on_order = member, on_order
        self._orphan_timeout, self._on_orphaned = orphan_timeout, on_orphaned
        self._on_connection = on_connection
        self._changed = threading.Condition()  # guards the three below
        self._master: MasterStub | None = None
        self._bond: Any = None
        self._ended = False
        self._reason = ""
        self._thread = threading.Thread(target=self._run, name="membership", daemon=True)

    def start(self) -> Self:
        """Begin to look for the master."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Let go of the master without a word; waiting calls end with `MasterAway`."""
        self._end()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def connected(self) -> bool:
        """Whether the master is there now."""
        return self._master is not None

    def call(self, method: Callable[[MasterStub], _Reply], *, wait: float = threading.TIMEOUT_MAX) -> _Reply:
        """`method(stub)`, tried again on each new bond while the master is away, for at most `wait` seconds.

        So the method must be safe to repeat. Any error but absence is the caller's.
        """
        until, delays = time.monotonic() + wait, backoff()
        while True:
            stub = self._await_master(until)
            try:
                return method(stub)
            except grpc.RpcError as error:
                if error.code() not in _AWAY:
                    raise
            except ValueError as error:  # what gRPC says of a channel closed a moment ago
                if "closed" not in str(error):
                    raise
            self._await_other(stub, next(delays))

    def _await_master(self, until: float) -> MasterStub:
        with self._changed:
            left = until - time.monotonic()
            self._changed.wait_for(lambda: self._master is not None or self._ended, max(left, 0))
            if self._master is None or self._ended or left <= 0:
                reason = "this process is ending" if self._ended else self._reason
                raise MasterAway(f"the master is away: {reason}", where=self._address)
            return self._master

    def _await_other(self, used: MasterStub, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._master is not used, seconds)

    def _run(self) -> None:
        try:
            self._keep()
        finally:
            if (
                not self._ended
            ):  # given up, or a callback failed: without a master there is nothing to live for
                self._end()
                self._on_orphaned()

    def _keep(self) -> None:
        """Hold one bond after the other until closed or orphaned."""
        delays, last_contact = backoff(most=0.5), time.monotonic()
        while not self._ended:
            if self._hold():
                delays, last_contact = backoff(most=0.5), time.monotonic()
            left = last_contact + self._orphan_timeout - time.monotonic()
            if left <= 0:
                log.warning("no master at %s for %g s: ending", self._address, self._orphan_timeout)
                return
            with self._changed:
                self._changed.wait_for(lambda: self._ended, min(next(delays), left))

    def _hold(self) -> bool:
        """Join and stay until the bond ends; whether there was one."""
        joined = False
        try:
            address = resolve(self._address)
            with connect(address, token=self._token) as channel:
                stub = MasterStub(channel)  # type: ignore[no-untyped-call]
                bond = self._offer(stub.Join(self._member()))
                said = bond.initial_metadata()  # comes with a failure, too, and perhaps ahead of it
                if joined := any(tuple(pair) == WELCOME[0] for pair in said):
                    log.info("joined the master at %s", address)
                    self._set_master(stub)
                for order in bond:
                    self._on_order(order)
                self._say_away("it ended the bond")
        except grpc.RpcError as error:
            self._say_away(f"{error.code().name}: {error.details()}")
        except OSError as error:
            self._say_away(str(error))
        finally:
            self._set_master(None)
        return joined

    def _offer(self, bond: Any) -> Any:
        """Let `close` cancel this bond, even if it was called a moment ago."""
        with self._changed:
            self._bond = bond
            if self._ended:
                bond.cancel()
        return bond

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            if self._bond is not None:
                self._bond.cancel()
            self._changed.notify_all()

    def _set_master(self, stub: MasterStub | None) -> None:
        with self._changed:
            before, self._master = self._master, stub
            self._changed.notify_all()
        if before is not stub:
            self._on_connection(stub is not None)

    def _say_away(self, reason: str) -> None:
        if reason != self._reason and not self._ended:
            log.info("waiting for the master at %s: %s", self._address, reason)
        self._reason = reason

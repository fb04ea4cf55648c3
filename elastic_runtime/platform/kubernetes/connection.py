"""The line to the API server: who we are, one request at a time, and again while the server is away.

What comes in is a method, a place and a body; what goes out is an object of the package `kubernetes`, or an
error in plain words. Every request has a time limit. A request whose answer was lost is made again, too, so
it may be carried out twice.
"""

from __future__ import annotations

import copy
import logging
import math
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml  # type: ignore[import-untyped]
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config import incluster_config
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes.errors import Away, knows_nobody, passing, told
from elastic_runtime.platform.kubernetes.stream import Stream

log = logging.getLogger(__name__)

CONNECT_SECONDS, READ_SECONDS = 5.0, 20.0
SETTLED_SECONDS = 15.0
"""A server that has just started answers before it has read who may do what, and refuses everybody."""
IDLE_CONNECTIONS = 32
"""Kept for the next request. There may be any number, so streams, which hold one each, starve nobody."""
_FIRST_PAUSE, _LONGEST_PAUSE, _SILENT_SECONDS = 0.1, 2.0, 1.0
_KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # a dead line is known in 25 s
_Item = TypeVar("_Item")


class Connection:
    """Asks the API server, from any thread."""

    def __init__(self, configuration: Any, *, patience: float) -> None:
        self._client = _client(configuration)
        self._patience = patience
        self._closed = threading.Event()
        self._outage = _Outage()
        self._streams: weakref.WeakSet[Stream[Any]] = weakref.WeakSet()

    def patient(self, seconds: float) -> Connection:
        """The same line, with another patience."""
        other = copy.copy(self)
        other._patience = seconds
        return other

    @property
    def bearer(self) -> tuple[str, str]:
        """The user's token, if that is what it is known by, and the file that the server is judged by."""
        known = self._client.configuration
        told = known.get_api_key_with_prefix("authorization") or ""
        return told.removeprefix("Bearer "), known.ssl_ca_cert or ""

    def close(self) -> None:
        """End all streams and all waiting."""
        self._closed.set()
        for stream in [*self._streams]:
            stream.stop()
        self._client.rest_client.pool_manager.clear()

    def ask(self, method: str, place: str, *, stopped: threading.Event | None = None, **request: Any) -> Any:
        """Ask until there is an answer, patience ends or it is `stopped`. See `_send` for the rest."""
        began, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            try:
                answer = self._send(method, place, **request)
            except (ApiException, HTTPError) as problem:
                why = passing(problem)
                if why:
                    self._outage.noticed(why)
                elif self._outage.over() or not knows_nobody(problem):  # it means what it says
                    raise told(problem) from problem
                left = self._patience - (time.monotonic() - began)
                if left <= 0 or (stopped or self._closed).wait(min(pause, left)):
                    raise (self._away(why) if why else told(problem)) from problem
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._outage.over()
                return answer

    def stream(
        self,
        place: str,
        query: dict[str, str],
        understand: Callable[[bytes], _Item],
        silence: float | None,
        *,
        whole_lines: bool = False,
    ) -> Stream[_Item]:
        """What is told there line by line; a connection that is silent for so long counts as broken.

        With `whole_lines` a last one without an end was cut off, and is none.
        """

        def connect(stopped: threading.Event) -> Any:
            return self.ask("GET", place, stopped=stopped, silence=silence, streamed=True, **query)

        made = Stream(connect, understand, whole_lines=whole_lines)
        self._streams.add(made)
        if self._closed.is_set():
            made.stop()
        return made

    def understood(self, answer: Any, kind: str) -> Any:
        """What is in `answer.data` as an object."""
        return self._client.deserialize(answer, kind)

    def _send(
        self,
        method: str,
        place: str,
        *,
        body: Any = None,
        kind: str | None = None,
        content: str = "application/json",
        streamed: bool = False,
        silence: float | None = READ_SECONDS,
        **query: str,
    ) -> Any:
        return self._client.call_api(
            place,
            method,
            query_params=[*query.items()],
            header_params={"Accept": "application/json", "Content-Type": content},
            body=body,
            response_type=kind,
            auth_settings=["BearerToken"],
            _return_http_data_only=True,
            _preload_content=not streamed,
            _request_timeout=(CONNECT_SECONDS, silence),
        )

    def _away(self, why: str) -> Away:
        return Away(
            f"the API server cannot be reached: {why}",
            where=self._client.configuration.host,
            remedy="`kubectl get pods` tells when it can",
        )


class _Outage:
    """Says once that the server is away, and once that it is back, however many threads wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._ended = -math.inf
        self._said = False

    def noticed(self, why: str) -> None:
        with self._lock:
            now = time.monotonic()
            self._since = self._since or now
            if now - self._since > _SILENT_SECONDS and not self._said:
                self._said = True
                log.warning("the API server of the cluster is away (%s): waiting for it", why)

    def over(self) -> bool:
        """The server has answered; true if it has had the time to be as it should."""
        with self._lock:
            now = time.monotonic()
            if self._since is not None:
                if self._said:
                    log.info("the API server answers again after %.0f s", now - self._since)
                self._since, self._ended, self._said = None, now, False
            return now - self._ended > SETTLED_SECONDS


def configuration(*, force_kube_config_file: bool) -> Any:
    """Where the cluster is, and who we are: in a pod its service account, elsewhere as kubectl has it."""
    found = client.Configuration()
    try:
        if Path(incluster_config.SERVICE_TOKEN_FILENAME).exists() and not force_kube_config_file:
            config.load_incluster_config(client_configuration=found)
        else:
            files = os.environ.get("KUBECONFIG") or "~/.kube/config"
            config.load_kube_config(files, client_configuration=found, persist_config=False)
    except (config.ConfigException, yaml.YAMLError, OSError) as problem:
        raise InputError(
            f"no cluster is configured: {problem}",
            where=os.environ.get("KUBECONFIG", ""),
            remedy="set it up so that `kubectl get pods` works, or run on this machine: --platform=process",
        ) from problem
    return found


def _client(configuration: Any) -> Any:
    """The package's client, which leaves it to us to ask again, and takes answers as they are."""
    configuration.retries = False
    configuration.client_side_validation = False
    configuration.connection_pool_maxsize = IDLE_CONNECTIONS
    logging.getLogger("kubernetes.client.rest").setLevel(logging.INFO)  # it would log secrets
    made = client.ApiClient(configuration)
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    pools = made.rest_client.pool_manager
    pools.connection_pool_kw["socket_options"] = [*HTTPConnection.default_socket_options, *options]
    return made

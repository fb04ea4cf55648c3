"""How processes of a job reach each other: channels and servers with one set of options and the job's token.

A peer that vanished without a word is noticed by keepalive in seconds. An address is `host:port`, or
`@<path>`, a file holding it, so that a successor on another port can be found. A taken port and an open door
are refused in one line.
"""

from __future__ import annotations

import ipaddress
import pathlib
import random
from collections.abc import Iterator
from concurrent import futures

import grpc
import grpc.aio

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.rpc.token import AioServerToken, ServerToken, TokenChannel, aio_client_interceptors

Options = list[tuple[str, int]]

_BOTH: Options = [
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.http2.max_frame_size", 4 << 20),
]
CLIENT_OPTIONS: Options = [
    *_BOTH,
    ("grpc.use_local_subchannel_pool", 1),  # a new channel means a new attempt to connect
    ("grpc.enable_retries", 0),  # we retry by the identity of what is sent
    ("grpc.min_reconnect_backoff_ms", 3_000),  # also bounds one attempt to connect
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]
SERVER_OPTIONS: Options = [
    *_BOTH,
    ("grpc.so_reuseport", 0),  # a taken port must be an error
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
]


def connect(address: str, *, token: str) -> grpc.Channel:
    """A channel to `host:port`, with the token on every call."""
    channel = grpc.insecure_channel(address, options=CLIENT_OPTIONS)
    return TokenChannel(channel, token) if token else channel


def connect_aio(address: str, *, token: str) -> grpc.aio.Channel:
    """`connect` for asyncio."""
    interceptors = aio_client_interceptors(token) if token else []
    return grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS, interceptors=interceptors)


def server(*, threads: int, token: str) -> grpc.Server:
    """A server answering on `threads` threads, closed to callers without the token."""
    pool = futures.ThreadPoolExecutor(threads, thread_name_prefix="rpc")
    return grpc.server(pool, options=SERVER_OPTIONS, interceptors=[ServerToken(token)] if token else [])


def server_aio(*, token: str) -> grpc.aio.Server:
    """`server` for asyncio."""
    return grpc.aio.server(options=SERVER_OPTIONS, interceptors=[AioServerToken(token)] if token else [])


def listen(server: grpc.Server | grpc.aio.Server, host: str, port: int, *, token: str) -> int:
    """Bind to `host:port` (0: any free port) and return the port; without a token on loopback only."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if not token and not _is_loopback(host):
        raise InputError(
            "without a token only loopback may be served",
            where=where,
            remedy="set ELASTICDL_TOKEN or ELASTICDL_TOKEN_FILE",
        )
    try:
        bound = int(server.add_insecure_port(where))
    except RuntimeError:
        bound = 0
    if not bound:
        raise ElasticError(
            "cannot listen here: the port is taken or not allowed",
            where=where,
            remedy="use another port, or 0",
        )
    return bound


def resolve(address: str) -> str:
    """The `host:port` that an address means now; `@<path>` is read anew (OSError while it is not there)."""
    if not address.startswith("@"):
        return address
    text = pathlib.Path(address[1:]).read_text().strip()
    if ":" not in text:
        raise OSError(f"{address[1:]} does not hold host:port")
    return text


def backoff(*, first: float = 0.05, most: float = 1.0) -> Iterator[float]:
    """Seconds to wait before each further attempt: doubling up to `most`, and scattered."""
    delay = first
    while True:
        yield delay * random.uniform(0.7, 1.3)  # noqa: S311 - no secret
        delay = min(most, delay * 2)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

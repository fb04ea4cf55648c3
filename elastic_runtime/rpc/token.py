"""The job's token on every call, both ways, so that nobody else on the network can steer or read a job.

The token comes from the environment (`ELASTICDL_TOKEN`, or the file named by `ELASTICDL_TOKEN_FILE`). Clients
add it as metadata, servers compare it in constant time before a handler sees a byte. An empty token means an
open door, which `channel.listen` allows on loopback only.
"""

from __future__ import annotations

import hmac
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import grpc
import grpc.aio

from elastic_runtime.errors import InputError

KEY = "elasticdl-token"
_REFUSAL = "the job's token is missing or wrong"


def token_from_environment(environ: Mapping[str, str] = os.environ) -> str:
    """The job's token; empty when none is set."""
    token, path = environ.get("ELASTICDL_TOKEN", ""), environ.get("ELASTICDL_TOKEN_FILE", "")
    if not token and path:
        try:
            token = pathlib.Path(path).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"cannot read the token: {error}", where=f"ELASTICDL_TOKEN_FILE={path}"
            ) from None
    if not (token.isascii() and token.isprintable()):
        raise InputError("a token may only hold printable ASCII characters", where="ELASTICDL_TOKEN")
    return token


class _CallDetails(NamedTuple):
    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


def client_interceptor(token: str) -> Any:
    """Adds the token to every call of a channel."""

    def intercept(_: Any, continuation: Callable[[Any, Any], Any], details: Any, request: Any) -> Any:
        metadata = (*(details.metadata or ()), (KEY, token))
        wait, compression = getattr(details, "wait_for_ready", None), getattr(details, "compression", None)
        rest = (details.credentials, wait, compression)
        return continuation(_CallDetails(details.method, details.timeout, metadata, *rest), request)

    kinds = {
        "intercept_unary_unary": grpc.UnaryUnaryClientInterceptor,
        "intercept_unary_stream": grpc.UnaryStreamClientInterceptor,
        "intercept_stream_unary": grpc.StreamUnaryClientInterceptor,
        "intercept_stream_stream": grpc.StreamStreamClientInterceptor,
    }
    return type("ClientToken", tuple(kinds.values()), dict.fromkeys(kinds, intercept))()


def aio_client_interceptors(token: str) -> list[Any]:
    """`client_interceptor` for asyncio, where gRPC wants one object for each kind of call."""

    async def intercept(_: Any, continuation: Callable[[Any, Any], Any], details: Any, request: Any) -> Any:
        metadata = grpc.aio.Metadata(*(details.metadata or ()), (KEY, token))
        return await continuation(details._replace(metadata=metadata), request)

    kinds = {
        "intercept_unary_unary": grpc.aio.UnaryUnaryClientInterceptor,
        "intercept_unary_stream": grpc.aio.UnaryStreamClientInterceptor,
        "intercept_stream_unary": grpc.aio.StreamUnaryClientInterceptor,
        "intercept_stream_stream": grpc.aio.StreamStreamClientInterceptor,
    }
    return [type("ClientToken", (kind,), {method: intercept})() for method, kind in kinds.items()]


class ServerToken(grpc.ServerInterceptor):  # type: ignore[type-arg]
    """Answers every call that does not carry the token with UNAUTHENTICATED."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        """Let the call through, or refuse it."""
        if _carries(handler_call_details.invocation_metadata, self._token):
            return continuation(handler_call_details)
        return grpc.unary_unary_rpc_method_handler(_refuse)


class AioServerToken(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """`ServerToken` for asyncio."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        """Let the call through, or refuse it."""
        if _carries(handler_call_details.invocation_metadata, self._token):
            return await continuation(handler_call_details)
        return grpc.unary_unary_rpc_method_handler(_refuse_async)


def _carries(metadata: Any, token: bytes) -> bool:
    given = next((value for key, value in metadata or () if key == KEY), "")
    return hmac.compare_digest(given if isinstance(given, bytes) else given.encode(), token)


def _refuse(_: Any, context: Any) -> None:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, _REFUSAL)


async def _refuse_async(_: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, _REFUSAL)

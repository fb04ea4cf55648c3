"""The job's token on every call, both ways, so that nobody else on the network can steer or read a job.

The token comes from the environment (`ELASTICDL_TOKEN`, or the file named by `ELASTICDL_TOKEN_FILE`). Clients
add it as metadata, servers compare it in constant time before a handler sees a byte. An empty token means an
open door, which `channel.listen` allows on loopback only.
"""

from __future__ import annotations

import hmac
import os
import pathlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Self

import grpc
import grpc.aio

from elastic_runtime.errors import InputError

KEY = "elasticdl-token"
_REFUSAL = "the job's token is missing or wrong"


def make_token() -> str:
    """A new one, for a new job."""
    return secrets.token_urlsafe(32)


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


class TokenChannel(grpc.Channel):
    """A channel that adds the token to every call.

    Not gRPC's own way, an interceptor: with one, each call asks the channel anew for its method, and that is
    the end of the process, by a segmentation fault, where another thread has just closed the channel.
    """

    def __init__(self, channel: grpc.Channel, token: str) -> None:
        self._channel: Any = channel
        self._token = token

    def unary_unary(self, *method: Any, **given: Any) -> Any:
        """A method of one request and one reply."""
        return _Method(self._channel.unary_unary(*method, **given), self._token)

    def unary_stream(self, *method: Any, **given: Any) -> Any:
        """A method of one request and many replies."""
        return _Method(self._channel.unary_stream(*method, **given), self._token)

    def stream_unary(self, *method: Any, **given: Any) -> Any:
        """A method of many requests and one reply."""
        return _Method(self._channel.stream_unary(*method, **given), self._token)

    def stream_stream(self, *method: Any, **given: Any) -> Any:
        """A method of many requests and many replies."""
        return _Method(self._channel.stream_stream(*method, **given), self._token)

    def subscribe(
        self, callback: Callable[[grpc.ChannelConnectivity], None], try_to_connect: bool = False
    ) -> None:
        """Hear of the connection's state."""
        self._channel.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Callable[[grpc.ChannelConnectivity], None]) -> None:
        """No longer."""
        self._channel.unsubscribe(callback)

    def close(self) -> None:
        """End all calls; those begun later fail."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Method:
    """A method whose calls carry the token."""

    def __init__(self, method: Any, token: str) -> None:
        self._method, self._own = method, (KEY, token)

    def __call__(self, request: Any, timeout: float | None = None, metadata: Any = None, **rest: Any) -> Any:
        return self._method(request, timeout, (*(metadata or ()), self._own), **rest)

    def future(self, request: Any, timeout: float | None = None, metadata: Any = None, **rest: Any) -> Any:
        """A call whose reply is waited for later."""
        return self._method.future(request, timeout, (*(metadata or ()), self._own), **rest)


def aio_client_interceptors(token: str) -> list[Any]:
    """`TokenChannel` for asyncio, where gRPC wants one object for each kind of call."""

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

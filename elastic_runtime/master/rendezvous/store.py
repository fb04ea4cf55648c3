"""Where the members of one world find each other: a key-value service that Horovod's Gloo speaks to.

Over HTTP: `PUT /scope/key` keeps a value, `GET` gives it or 404, `DELETE` says that its owner needs it no
longer. A store is of one world and has a port of its own, so members of different worlds cannot meet. Once
void it answers 410 to everything: whoever is still coming together there can stop at once.
"""

from __future__ import annotations

import asyncio
import contextlib

_MOST_BODY = 1 << 20
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 410: "Gone", 413: "Content Too Large"}


class Store:
    """The store of one world, from `open` to `close`."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._server: asyncio.Server | None = None
        self._void = False

    async def open(self, host: str) -> int:
        """Listen on a free port, and return it."""
        self._server = await asyncio.start_server(self._serve, host, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def void(self) -> None:
        """This world will never come together."""
        self._void = True

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            status, body = await self._answer(reader)
            head = [
                f"HTTP/1.1 {status} {_REASONS[status]}",
                f"Content-Length: {len(body)}",
                "Connection: close",
            ]
            writer.write("\r\n".join([*head, "", ""]).encode() + body)
            await writer.drain()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        method, _, rest = (await reader.readline()).decode("latin-1").partition(" ")
        key = rest.partition(" ")[0]
        size = 0
        while (line := await reader.readline()) not in (b"\r\n", b"\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            if name.strip().lower() == "content-length":
                size = int(value) if value.strip().isdecimal() else _MOST_BODY + 1
        if size > _MOST_BODY:
            return 413, b""
        body = await reader.readexactly(size)
        if self._void:
            return 410, b""
        match method:
            case "PUT":
                self._values[key] = body
            case "GET":
                return (200, self._values[key]) if key in self._values else (404, b"")
            case "DELETE":
                self._values.pop(key, None)
            case _:
                return 400, b""
        return 200, b""

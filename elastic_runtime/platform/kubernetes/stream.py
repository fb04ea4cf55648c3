"""What the API server tells over a connection that stays open: events of a watch, lines of a log.

A `Stream` connects when it is first read and ends when the server ends it or the connection breaks; whoever
wants more asks for another. `stop` ends it from any thread, at once, whatever it is waiting for.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

from urllib3.exceptions import HTTPError

from elastic_runtime.platform.kubernetes.errors import Away

_Item = TypeVar("_Item")


class Stream(Generic[_Item]):
    """An iterator over what is told; one thread reads it."""

    def __init__(
        self,
        connect: Callable[[threading.Event], Any],
        understand: Callable[[bytes], _Item],
        *,
        whole_lines: bool = False,
    ) -> None:
        self._connect, self._understand = connect, understand
        self._whole_lines = whole_lines  # a proxy may end a connection in order, but in mid-line
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._response: Any = None
        self._items = self._read()

    def __iter__(self) -> Iterator[_Item]:
        return self

    def __next__(self) -> _Item:
        return next(self._items)

    def stop(self) -> None:
        """End it; the reader finds no more."""
        with self._lock:
            self._stopped.set()
            if self._response is not None:
                _cut(self._response)

    def _read(self) -> Iterator[_Item]:
        if self._stopped.is_set():
            return
        try:
            response = self._connect(self._stopped)
        except Away:
            if self._stopped.is_set():
                return
            raise
        with self._lock:
            self._response = response
        try:
            yield from map(self._understand, self._lines(response))
        finally:
            with self._lock:
                self._response = None
            response.close()
            response.release_conn()

    def _lines(self, response: Any) -> Iterator[bytes]:
        rest = b""
        try:
            for chunk in () if self._stopped.is_set() else response.stream(decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
        except (HTTPError, OSError):  # a line cut short by a broken connection is none
            return
        if rest and not self._whole_lines:
            yield rest


def _cut(response: Any) -> None:
    """Wakes a reader in the middle of a read, which closing would wait for."""
    line = response.connection and response.connection.sock
    if line is not None:
        with suppress(OSError):
            socket.socket.shutdown(line, socket.SHUT_RDWR)

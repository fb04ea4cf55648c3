"""A buffer as it was at one version, while training goes on: copied only as far and as late as needed.

A pull or a snapshot takes a `Copy`, which costs nothing. A chunk is copied when it is first read, so
reading runs along with sending; what is left is copied just before the buffer changes. Pulls of one version
share one copy.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator

import numpy as np

CHUNK = 1 << 20
"""Bytes in a chunk of parameters, on the wire and in a copy."""
VALUES = CHUNK // 4
"""float32 values in a chunk."""


class Copy:
    """One buffer at one version, in chunks of bytes."""

    def __init__(self, source: np.ndarray, lock: threading.RLock) -> None:
        self._source: memoryview | None = source.view(np.uint8).data
        self.nbytes = source.nbytes
        self._chunks: list[bytes | None] = [None] * -(-source.nbytes // CHUNK)
        self._lock = lock

    def chunks(self) -> Iterator[bytes]:
        """The bytes, in order; safe while the buffer's owner goes on."""
        for i, chunk in enumerate(self._chunks):
            if chunk is None:
                with self._lock:
                    chunk = self._chunk(i)  # noqa: PLW2901
            yield chunk

    def complete(self) -> None:
        """Copy what is left; the caller holds the lock and is about to change the buffer."""
        for i in range(len(self._chunks)):
            self._chunk(i)
        self._source = None

    def _chunk(self, i: int) -> bytes:
        chunk = self._chunks[i]
        if chunk is None:
            assert self._source is not None
            chunk = self._chunks[i] = bytes(self._source[i * CHUNK : (i + 1) * CHUNK])
        return chunk


class Copies:
    """The copies of present buffers that somebody still holds."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._live: weakref.WeakValueDictionary[int, Copy] = weakref.WeakValueDictionary()

    def of(self, buffer: np.ndarray) -> Copy:
        """The copy of this buffer as it is now."""
        copy = self._live.get(id(buffer))
        if copy is None:
            copy = self._live[id(buffer)] = Copy(buffer, self._lock)
        return copy

    def before_change(self) -> None:
        """Complete them all: the buffers are about to change, and later readers need later copies."""
        for copy in list(self._live.values()):
            copy.complete()
        self._live.clear()


def chunks_of(buffer: np.ndarray) -> Iterator[bytes]:
    """The bytes of a buffer that does not change."""
    raw = buffer.reshape(-1).view(np.uint8).data
    for start in range(0, len(raw), CHUNK):
        yield bytes(raw[start : start + CHUNK])


def pieces(count: int) -> Iterator[slice]:
    """The ranges of a buffer of `count` values that its chunks cover."""
    for start in range(0, count, VALUES):
        yield slice(start, min(start + VALUES, count))

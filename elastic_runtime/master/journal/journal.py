"""The writer of a journal: callers append and wait; those that wait at the same time share one write.

`append` buffers a record, `await commit()` returns once all that was appended is durable. A snapshot puts the
whole state in the place of the records before it: `write_snapshot` when the caller likes, or by itself when
the store has little room left and the journal was told how to ask for the state.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.journal.file import FileStore
from elastic_runtime.master.journal.rows import RECORD, SNAPSHOT, Row, Store, check, checksum, replay
from elastic_runtime.platform.no_room import NoRoom


class Journal:
    """The one writer of a store, from construction until `close`. Used from one asyncio loop."""

    def __init__(self, store: Store | Path, *, state: Callable[[], Any] | None = None) -> None:
        self._store = FileStore(store) if isinstance(store, Path) else store
        self._state = state
        try:
            self._rows = list(self._store.load())
            check(self._rows, self._store.where)
        except BaseException:
            self._store.close()
            raise
        self._number, _, _, self._chain = self._rows[-1] if self._rows else (0, RECORD, "", 0)
        self._buffer: list[tuple[int, str]] = []
        self._appended = self._durable = 0
        self._next_write = 0.0
        self._flushing: asyncio.Future[None] | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="journal")

    def replay(self) -> tuple[Any, Iterator[Any]]:
        """The last snapshot (None without one) and the records after it, as they were found. Once only."""
        found, self._rows = self._rows, []
        return replay(found)

    def append(self, record: Any) -> None:
        """Take a JSON-able record; it is durable after the next `commit`."""
        self._add(RECORD, record)

    async def commit(self) -> None:
        """Return once all that was appended is durable; after an error the next call tries it all again."""
        target = self._appended
        while self._durable < target:
            if self._flushing is None:
                self._flushing = asyncio.ensure_future(self._flush())
            await asyncio.shield(self._flushing)

    def write_snapshot(self, state: Any) -> Coroutine[Any, Any, None]:
        """Replace all that was appended before this call by a JSON-able state; await it when you like."""
        self._add(SNAPSHOT, state)
        return self.commit()

    async def close(self) -> None:
        """Commit what is left and let the store go."""
        try:
            await self.commit()
        finally:
            closing = self._executor.submit(self._store.close)
            self._executor.shutdown(wait=False)
            await asyncio.wrap_future(closing)

    def _add(self, kind: int, value: Any) -> None:
        self._buffer.append((kind, json.dumps(value, separators=(",", ":"))))
        self._appended += 1

    async def _flush(self) -> None:
        """Write what has come together until the store's next turn."""
        loop = asyncio.get_running_loop()
        batch: list[tuple[int, str]] = []
        try:
            await asyncio.sleep(self._next_write - loop.time())
            if self._state is not None and self._records_waiting() > self._store.room:
                self._add(SNAPSHOT, self._state())
            batch, self._buffer = self._buffer, []
            self._next_write = loop.time() + self._store.pause
            try:
                await loop.run_in_executor(self._executor, self._write, batch)
            except NoRoom:
                if self._state is None or any(kind == SNAPSHOT for kind, _ in batch):
                    raise
                self._add(SNAPSHOT, self._state())  # rows take more room than was reckoned with
                batch, self._buffer = batch + self._buffer, []
                await loop.run_in_executor(self._executor, self._write, batch)
            self._durable += len(batch)
        except ElasticError:
            self._buffer[:0] = batch
            raise
        finally:
            self._flushing = None

    def _records_waiting(self) -> int:
        return sum(len(body) for kind, body in self._buffer if kind == RECORD)

    def _write(self, batch: list[tuple[int, str]]) -> None:
        """In the journal's own thread. A snapshot takes the place of what the batch has before it, too."""
        number, chain, write = self._number, self._chain, self._store.append
        rows: list[Row] = []
        for kind, body in batch:
            number += 1
            if kind == SNAPSHOT:
                chain, rows, write = 0, [], self._store.replace
            chain = checksum(kind, body, chain)
            rows.append((number, kind, body, chain))
        write(rows)
        self._number, self._chain = number, chain

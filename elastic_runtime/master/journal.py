"""The master's journal: what was accepted, durable before it is answered.

`append` buffers a record, `await commit()` returns once all that was appended is on disk; callers that wait
at the same time share one commit. `write_snapshot` puts the whole state in the place of the records before
it. `replay` gives both back. One SQLite file with a write-ahead log: at whatever moment process or machine
dies, what is read again is a prefix of what was appended, and has all that was committed. Each entry's
checksum goes on from the one before, so that damage other than a lost tail is found and said.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import socket
import sqlite3
import tempfile
import zlib
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from elastic_runtime.errors import ElasticError

_RECORD, _SNAPSHOT = 0, 1
_FORMAT = 1  # kept as the file's user_version; 0 is a file without a table yet
_TABLE = "CREATE TABLE entry (seq INTEGER PRIMARY KEY, kind INTEGER, body TEXT, chain INTEGER)"


class Journal:
    """The one writer of a journal file, from construction until `close`. Used from one asyncio loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner = path.with_name(path.name + ".owner")
        with _errors_told(path, self._owner):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
            try:
                self._seq, self._chain = self._take()
            except BaseException:
                self._connection.close()
                raise
        self._owner.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        self._buffer: list[tuple[int, str]] = []
        self._appended = self._durable = 0
        self._flushing: asyncio.Future[None] | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="journal")

    def replay(self) -> tuple[Any, Iterator[Any]]:
        """The last snapshot (None without one) and the records after it. Before the first `commit` only."""
        return _replay(self._connection, self.path)

    def append(self, record: Any) -> None:
        """Take a JSON-able record; it is durable after the next `commit`."""
        self._add(_RECORD, record)

    async def commit(self) -> None:
        """Return once all that was appended is durable; after an error the next call tries it all again."""
        target = self._appended
        while self._durable < target:
            if self._flushing is None:
                self._flushing = asyncio.ensure_future(self._flush())
            await asyncio.shield(self._flushing)

    def write_snapshot(self, state: Any) -> Coroutine[Any, Any, None]:
        """Replace all that was appended before this call by a JSON-able state; await it when you like."""
        self._add(_SNAPSHOT, state)
        return self.commit()

    async def close(self) -> None:
        """Commit what is left and let the file go."""
        try:
            await self.commit()
        finally:
            self._executor.shutdown()
            self._connection.close()
            self._owner.unlink(missing_ok=True)

    def _add(self, kind: int, value: Any) -> None:
        self._buffer.append((kind, json.dumps(value, separators=(",", ":"))))
        self._appended += 1

    async def _flush(self) -> None:
        batch, self._buffer = self._buffer, []
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._write, batch)
            self._durable += len(batch)
        except ElasticError:
            self._buffer[:0] = batch
            raise
        finally:
            self._flushing = None

    def _write(self, batch: list[tuple[int, str]]) -> None:
        """One transaction, in the journal's own thread. A snapshot is always the first entry of the file."""
        seq, chain, first = self._seq, self._chain, 0
        rows: list[tuple[int, int, str, int]] = []
        for kind, body in batch:
            seq += 1
            if kind == _SNAPSHOT:
                chain, first, rows = 0, seq, []
            chain = _checksum(kind, body, chain)
            rows.append((seq, kind, body, chain))
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("DELETE FROM entry WHERE seq < ?", (first,))
                self._connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise ElasticError(
                f"the journal cannot be written: {error}",
                where=str(self.path),
                remedy="make room and start the same command again: it goes on from the last durable event",
            ) from error
        self._seq, self._chain = seq, chain

    def _take(self) -> tuple[int, int]:
        """Lock the file for this process and tell number and checksum of its last entry."""
        _check_files(self.path)
        for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {setting}")
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            if _is_blank(self._connection, self.path):
                self._connection.execute(_TABLE)
                self._connection.execute(f"PRAGMA user_version = {_FORMAT}")
        rows = self._connection.execute("SELECT seq, chain FROM entry ORDER BY seq DESC LIMIT 1").fetchall()
        return rows[0] if rows else (0, 0)


def read_only(path: Path) -> tuple[Any, list[Any]]:
    """The snapshot and records of a journal that nobody writes any more; its files are not touched."""
    if not path.exists():
        raise ElasticError("there is no journal", where=str(path), remedy="check the job's name and folder")
    with tempfile.TemporaryDirectory(prefix="journal-") as folder, _errors_told(path):
        _check_files(path)
        # SQLite would finish a dead owner's write-ahead log in place, so it is given a copy of both files.
        copy = Path(folder) / "journal"
        for suffix in ("", "-wal"):
            if Path(f"{path}{suffix}").exists():
                shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        with closing(sqlite3.connect(copy)) as connection:
            if _is_blank(connection, path):
                return None, []
            snapshot, records = _replay(connection, path)
            return snapshot, list(records)


def discard(path: Path) -> None:
    """Remove the journal of a job that begins anew."""
    for suffix in ("-wal", "-shm", ".owner", ""):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _replay(connection: sqlite3.Connection, path: Path) -> tuple[Any, Iterator[Any]]:
    entries = _entries(connection, path)
    kind, value = next(entries, (_SNAPSHOT, None))
    if kind == _SNAPSHOT:
        return value, (record for _, record in entries)
    return None, itertools.chain([value], (record for _, record in entries))


def _entries(connection: sqlite3.Connection, path: Path) -> Iterator[tuple[int, Any]]:
    """Kind and value of each entry, each checked against the one before."""
    expected, chain = 1, 0
    with _errors_told(path):
        for seq, kind, body, checksum in connection.execute(
            "SELECT seq, kind, body, chain FROM entry ORDER BY seq"
        ):
            if kind == _SNAPSHOT and chain == 0:
                expected = seq
            chain = _checksum(kind, body, chain)
            if (seq, checksum) != (expected, chain):
                raise _damaged(path, f"entry {expected} is missing or does not match its checksum")
            yield kind, json.loads(body)
            expected += 1


def _checksum(kind: int, body: str, chain: int) -> int:
    return zlib.crc32(f"{kind}{body}".encode(), chain)


def _is_blank(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether nothing was ever written; a file of another kind or of another version of ours is refused."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = connection.execute("SELECT sql FROM sqlite_master").fetchall()
    if version == 0 and not tables:
        return True
    if version != _FORMAT:
        raise ElasticError(
            f"not a journal of this version (found format {version}, need {_FORMAT})",
            where=str(path),
            remedy="use the version it was written with, or begin anew with --restart",
        )
    if tables != [(_TABLE,)]:
        raise _damaged(path, "its table is not the one it was made with")
    return False


def _check_files(path: Path) -> None:
    """SQLite silently drops the log of a file that was emptied."""
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size and not path.stat().st_size:
        raise _damaged(path, "the file is empty but its log is not")


def _damaged(path: Path, why: object) -> ElasticError:
    return ElasticError(
        f"the journal is damaged: {why}",
        where=str(path),
        remedy="restore the file from a backup, or begin anew with --restart",
    )


@contextmanager
def _errors_told(path: Path, owner: Path | None = None) -> Iterator[None]:
    """SQLite's errors in the user's words."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        if owner and getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise ElasticError(
                f"another master has the journal open: {_holder(owner)}",
                where=str(path),
                remedy="wait for it to end, stop it, or choose another --job_name",
            ) from error
        raise ElasticError(
            f"the journal cannot be read: {error}",
            where=str(path),
            remedy="check the folder's permissions and room",
        ) from error
    except sqlite3.DatabaseError as error:
        raise _damaged(path, error) from error


def _holder(owner: Path) -> str:
    try:
        found = json.loads(owner.read_text())
        return f"process {found['pid']} on {found['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "an unknown process"

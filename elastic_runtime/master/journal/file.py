"""A journal in one SQLite file with a write-ahead log, on a disk or a volume.

One process has it open at a time; the file beside it, `.owner`, tells others who. A machine that dies loses
nothing that was committed.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.journal.rows import SNAPSHOT, Row, check, damaged, replay

_FORMAT = 1  # kept as the file's user_version; 0 is a file without a table yet
_TABLE = "CREATE TABLE entry (seq INTEGER PRIMARY KEY, kind INTEGER, body TEXT, chain INTEGER)"
_ROWS_BYTES = 4 << 20


class FileStore:
    """The one holder of a journal file, from construction until `close`."""

    pause = 0.0

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path, self._owner = path, path.with_name(path.name + ".owner")
        self._bytes = 0
        with _errors_told(path, self._owner):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
            try:
                self._take()
            except BaseException:
                self._connection.close()
                raise
        self._owner.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))

    @property
    def room(self) -> int:
        """How many more bytes of rows should come before a snapshot."""
        return _ROWS_BYTES - self._bytes

    def load(self) -> list[Row]:
        """All rows, in order."""
        with _errors_told(self._path):
            rows = _rows(self._connection)
        self._bytes = _size(rows)
        return rows

    def append(self, rows: Sequence[Row]) -> None:
        """Make rows durable behind those that are there."""
        self._write(rows, first=0)
        self._bytes += _size(rows)

    def replace(self, rows: Sequence[Row]) -> None:
        """Make rows, the first of them a snapshot, durable in the place of those that are there."""
        self._write(rows, first=rows[0][0])
        self._bytes = _size(rows)

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()
        self._owner.unlink(missing_ok=True)

    def _write(self, rows: Sequence[Row], *, first: int) -> None:
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("DELETE FROM entry WHERE seq < ?", (first,))
                self._connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise ElasticError(
                f"the journal cannot be written: {error}",
                where=self.where,
                remedy="make room and start the same command again: it goes on from the last durable event",
            ) from error

    def _take(self) -> None:
        """Lock the file for this process."""
        _check_files(self._path)
        for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {setting}")
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            if _is_blank(self._connection, self._path):
                self._connection.execute(_TABLE)
                self._connection.execute(f"PRAGMA user_version = {_FORMAT}")


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
            rows = [] if _is_blank(connection, path) else _rows(connection)
    check(rows, str(path))
    snapshot, records = replay(rows)
    return snapshot, list(records)


def discard(path: Path) -> None:
    """Remove the journal of a job that begins anew."""
    for suffix in ("-wal", "-shm", ".owner", ""):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _rows(connection: sqlite3.Connection) -> list[Row]:
    return connection.execute("SELECT seq, kind, body, chain FROM entry ORDER BY seq").fetchall()


def _size(rows: Sequence[Row]) -> int:
    """Of the records, which nobody has checked yet; a snapshot is as long as it must be."""
    return sum(len(str(body)) for _, kind, body, _ in rows if kind != SNAPSHOT)


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
        raise damaged(str(path), "its table is not the one it was made with")
    return False


def _check_files(path: Path) -> None:
    """SQLite silently drops the log of a file that was emptied."""
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size and not path.stat().st_size:
        raise damaged(str(path), "the file is empty but its log is not")


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
        raise damaged(str(path), error) from error


def _holder(owner: Path) -> str:
    try:
        found = json.loads(owner.read_text())
        return f"process {found['pid']} on {found['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "an unknown process"

"""What a journal is made of: numbered rows, each with a checksum that goes on from the row before.

So damage other than a lost tail is found. A snapshot is always the first row, and the chain begins with it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from elastic_runtime.errors import ElasticError

RECORD, SNAPSHOT = 0, 1
Row = tuple[int, int, str, int]
"""Number, kind, JSON text, checksum."""


class Store(Protocol):
    """Where rows are kept. Each call but `load` is one write that happens whole or not at all."""

    @property
    def where(self) -> str:
        """The place, for whoever reads an error."""
        ...

    @property
    def pause(self) -> float:
        """The seconds from the beginning of one write to that of the next."""
        ...

    @property
    def room(self) -> int:
        """How many more bytes of rows it takes gladly; a snapshot makes room."""
        ...

    def load(self) -> Iterable[Row]:
        """All rows, in order; called once, before any write."""
        ...

    def append(self, rows: Sequence[Row]) -> None:
        """Make rows durable behind those that are there; after an error it may or may not have happened."""
        ...

    def replace(self, rows: Sequence[Row]) -> None:
        """The same, in the place of all that are there: the first one is a snapshot."""
        ...

    def close(self) -> None:
        """Let the place go."""
        ...


def checksum(kind: int, body: str, chain: int) -> int:
    """Of a row, going on from that of the row before."""
    return zlib.crc32(f"{kind}{body}".encode(), chain)


def check(rows: Sequence[Row], where: str) -> None:
    """Raise an error unless each row follows from the one before."""
    expected, chain = 1, 0
    for number, kind, body, found in rows:
        if kind == SNAPSHOT and chain == 0:
            expected = number
        chain = checksum(kind, body, chain)
        if (number, found) != (expected, chain):
            raise damaged(where, f"entry {expected} is missing or does not match its checksum")
        expected += 1


def replay(rows: Sequence[Row]) -> tuple[Any, Iterator[Any]]:
    """The snapshot (None without one) and the records after it."""
    values = (json.loads(body) for _, _, body, _ in rows)
    snapshot = next(values) if rows and rows[0][1] == SNAPSHOT else None
    return snapshot, values


def damaged(where: str, why: object) -> ElasticError:
    """The journal is not what was written."""
    return ElasticError(
        f"the journal is damaged: {why}",
        where=where,
        remedy="restore it from a backup, or begin anew with --restart",
    )

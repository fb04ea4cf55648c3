"""One output file: rows are encoded and written, bad ones refused or set aside. This is what runs in
parallel.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from elastic_runtime.data.convert.rows import Row
from elastic_runtime.data.recordio import Writer
from elastic_runtime.errors import InputError

CHUNK_BYTES = 1 << 20  # small, so that a shard in the middle of a file costs little to read


@dataclass(frozen=True)
class Shard:
    """A file to write and the rows that go into it."""

    path: str
    part: str
    rows: list[Row]


@dataclass(frozen=True)
class Written:
    """A file written under its hidden name, and the bad rows as lines of JSON."""

    path: str
    part: str
    records: int
    rejects: list[str]


@dataclass(frozen=True)
class ShardWriter:
    """What every process needs to know to write a shard."""

    encode: Callable[[Any], bytes]
    unit: str
    compressor: str
    skip: bool

    def __call__(self, shard: Shard) -> Written:
        """Write one file."""
        rejects = []
        with Writer(shard.path, chunk_bytes=CHUNK_BYTES, compressor=self.compressor) as writer:
            for row in shard.rows:
                try:
                    if row.fault:
                        raise InputError(row.fault)
                    record = self.encode(row.data)
                except InputError as error:
                    if not self.skip:
                        raise self._located(row, error) from None
                    rejects.append(_reject(row, error))
                else:
                    writer.write(record)
        return Written(shard.path, shard.part, len(shard.rows) - len(rejects), rejects)

    def _located(self, row: Row, error: InputError) -> InputError:
        remedy = error.remedy or "correct it, give another --schema, or --on_error=skip"
        what = f"{error.where}: {error.what}" if error.where else error.what
        return InputError(what, where=f"{row.file}, {self.unit} {row.line}", remedy=remedy)


def _reject(row: Row, error: InputError) -> str:
    text = row.data.decode(errors="backslashreplace") if isinstance(row.data, bytes) else row.data
    shown = text if isinstance(text, str | list) else None
    return json.dumps({"file": row.file, "line": row.line, "reason": str(error), "row": shown})

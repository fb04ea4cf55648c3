"""Writing RecordIO: records are gathered to a chunk, which is compressed and written when the next would not
fit.

With the default options the bytes are those that pyrecordio 0.0.7 writes. Smaller chunks make reading from
the middle cheaper; pyrecordio reads them just as well.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from elastic_runtime.data import storage
from elastic_runtime.data.recordio.codec import CHUNK_BYTES, Compressor, DamageError, RecordIOError, encode
from elastic_runtime.data.trouble import told
from elastic_runtime.errors import InputError, nearest


class Writer:
    """A new file, replacing what is at `path`; as a context it is completed only if the block succeeds."""

    def __init__(
        self, path: str, *, chunk_bytes: int = CHUNK_BYTES, compressor: Compressor | str = "snappy"
    ) -> None:
        if not 0 < chunk_bytes <= CHUNK_BYTES:
            raise InputError(f"chunk_bytes={chunk_bytes} is not between 1 and {CHUNK_BYTES}", where=path)
        self._path, self._limit, self._compressor = path, chunk_bytes, _compressor(compressor)
        self._records: list[bytes] = []
        self._bytes = 0
        self._scratch = bytearray()
        with told("created", path, verdict=RecordIOError):
            self._file = storage.open_output(path)

    def write(self, record: bytes) -> None:
        """Append one record, of any length, none included."""
        if not isinstance(record, bytes):
            raise ValueError(f"a record must be bytes, got {type(record).__name__}")
        size = len(record)
        if self._bytes + size > self._limit and self._records:
            self._flush()
        self._records.append(record)
        self._bytes += size

    def close(self) -> None:
        """Write the last chunk and close the file; only now it is complete."""
        if not self._file.closed:
            try:
                if self._records:
                    self._flush()
            finally:
                self._close()

    def _flush(self) -> None:
        try:
            header, body = encode(self._records, self._compressor, self._scratch)
        except DamageError as reason:
            raise RecordIOError(str(reason), where=self._path, remedy="write smaller records") from None
        with told("written", self._path, verdict=RecordIOError):
            self._file.write(header)
            self._file.write(body)
        self._records, self._bytes = [], 0

    def _close(self) -> None:
        with told("written", self._path, verdict=RecordIOError):
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._close()


def _compressor(choice: Compressor | str) -> Compressor:
    if isinstance(choice, Compressor):
        return choice
    names = {c.name.lower(): c for c in Compressor}
    if choice not in names:
        raise InputError(f"unknown compressor {choice!r}", remedy=nearest(choice, names))
    return names[choice]

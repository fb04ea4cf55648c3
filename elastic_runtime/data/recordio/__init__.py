"""RecordIO: record files that can be read from any record on, byte for byte those of pyrecordio 0.0.7.

`Writer`, `Index` and `Scanner` keep pyrecordio's interface. `read_range` and `read_blocks` give many records
at once, which is what training uses. Unlike pyrecordio, no damage is taken for the end of the file: it is a
`RecordIOError`.
"""

from __future__ import annotations

from elastic_runtime.data.recordio.codec import CHUNK_BYTES, Compressor, RecordIOError
from elastic_runtime.data.recordio.index import Index, count
from elastic_runtime.data.recordio.reader import Scanner, read_blocks, read_range
from elastic_runtime.data.recordio.writer import Writer

__all__ = [
    "CHUNK_BYTES",
    "Compressor",
    "Index",
    "RecordIOError",
    "Scanner",
    "Writer",
    "count",
    "read_blocks",
    "read_range",
]

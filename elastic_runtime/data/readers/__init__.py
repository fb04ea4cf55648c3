"""What training reads: sources of records, each readable from any record on.

`open_reader` takes a folder, file, glob or list of URIs. A user's own reader, written for the old ElasticDL,
is made one of ours by `adapt`.
"""

from __future__ import annotations

from elastic_runtime.data.readers.base import Metadata, Reader, Source
from elastic_runtime.data.readers.choose import open_reader
from elastic_runtime.data.readers.old import RecordIODataReader, adapt
from elastic_runtime.data.readers.recordio import RecordIOReader
from elastic_runtime.data.readers.text import CSVReader, TextReader

__all__ = [
    "CSVReader",
    "Metadata",
    "Reader",
    "RecordIODataReader",
    "RecordIOReader",
    "Source",
    "TextReader",
    "adapt",
    "open_reader",
]

"""CSV files with a header: each row an example, each column a feature of one value.

Quoted newlines, a byte-order mark and `.gz` are understood. Rows are parsed strictly: a stray or unclosed
quote is a bad row.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from elastic_runtime.data import storage
from elastic_runtime.data.convert.request import ConvertRequest
from elastic_runtime.data.convert.rows import Row, Source, open_plain
from elastic_runtime.data.convert.schema import SAMPLE_ROWS, Column, Kind, from_text, infer, select
from elastic_runtime.data.example import encode
from elastic_runtime.errors import InputError

_LONGEST_FIELD = 16 << 20


def open_csv(request: ConvertRequest) -> Source:
    """All rows of the files, which must have the same header."""
    files = storage.list_files(request.source)
    tabs = files[0].removesuffix(".gz").endswith((".tsv", ".tab"))
    delimiter = request.delimiter or ("\t" if tabs else ",")
    header = next(_read(files[0], delimiter)).data
    _check_header(header, files[0])
    columns = select(request.schema, header, files[0])
    rows = _all_rows(files, header, delimiter)
    sample = list(itertools.islice(rows, SAMPLE_ROWS))
    places = tuple(header.index(column.origin) for column in columns)
    whole = [row.data for row in sample if not row.fault]
    typed = tuple(c.of(infer(cells[i] for cells in whole)) for c, i in zip(columns, places, strict=True))
    return Source(files, itertools.chain(sample, rows), _Encoder(typed, places))


@dataclass(frozen=True)
class _Encoder:
    columns: tuple[Column, ...]
    places: tuple[int, ...]

    def __call__(self, cells: list[str]) -> bytes:
        features = {}
        for column, place in zip(self.columns, self.places, strict=True):
            try:
                features[column.feature] = from_text(cells[place], column.kind or Kind.BYTES)
            except InputError as error:
                raise InputError(error.what, where=f"column {column.origin!r}") from None
        return encode(features)


def _all_rows(files: list[str], header: list[str], delimiter: str) -> Iterator[Row]:
    for file in files:
        rows = _read(file, delimiter)
        if next(rows).data != header:
            raise InputError(f"its columns differ from those of {files[0]}", where=file)
        for row in rows:
            if not row.fault and len(row.data) != len(header):
                row = row._replace(fault=f"it has {len(row.data)} of {len(header)} columns")  # noqa: PLW2901
            yield row


def _read(file: str, delimiter: str) -> Iterator[Row]:
    """The header, then each row that is not blank, with the line it starts on."""
    csv.field_size_limit(_LONGEST_FIELD)
    with open_plain(file) as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape", newline="")
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        found = False
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                if not found:
                    raise InputError(f"its header cannot be read: {error}", where=file) from error
                yield Row(file, line, None, fault=f"it is no CSV: {error}")
                continue
            if cells:
                found = True
                yield Row(file, line, cells)
        if not found:
            raise InputError("it is empty", where=file, remedy="the first row must name the columns")


def _check_header(names: list[str], file: str) -> None:
    for name in names:
        if not name.strip() or names.count(name) > 1:
            what = f"column {name!r} is named twice" if name.strip() else "a column has no name"
            raise InputError(what, where=f"{file}, header")
        if any("\udc80" <= letter <= "\udcff" for letter in name):
            raise InputError("its header is not UTF-8", where=file)

"""The conversion itself: rows of a source, cut into shards, written in parallel, put in place together."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator

from elastic_runtime.data.convert.kinds import open_source
from elastic_runtime.data.convert.request import ConvertRequest, ConvertResult
from elastic_runtime.data.convert.rows import Row, Source
from elastic_runtime.data.convert.shard import Shard, ShardWriter
from elastic_runtime.data.convert.split import Split, parse_split
from elastic_runtime.data.convert.staging import Staging
from elastic_runtime.data.convert.workers import Workers
from elastic_runtime.errors import InputError

Progress = Callable[[int, int | None], None]


def convert(request: ConvertRequest, progress: Progress | None = None) -> ConvertResult:
    """Convert a dataset; `progress` is told rows done and rows in all, if that is known."""
    began = time.monotonic()
    split = parse_split(request.split)
    source = open_source(request)
    work = ShardWriter(source.encode, source.unit, request.compressor, request.on_error == "skip")
    files: list[tuple[str, str]] = []
    records = rejects = 0
    staging = Staging(request.output, split.parts)
    staging.refuse_own(source.files)
    with staging, Workers(work, _processes(request, staging)) as workers:
        for written in workers.run(_shards(source, split, request, staging)):
            staging.reject(written.rejects)
            records += written.records
            rejects += len(written.rejects)
            if written.records:
                files.append((written.path, written.part))
            if progress:
                progress(records + rejects, source.total)
        if not records:
            what = f"all {rejects} rows are bad" if rejects else "there are no rows to convert"
            raise InputError(what, where=request.source)
        staging.commit(files)
    rejects_file = staging.rejects_file if rejects else ""
    return ConvertResult(
        records, len(files), rejects, rejects_file, time.monotonic() - began, source.pictures
    )


def _shards(source: Source, split: Split, request: ConvertRequest, staging: Staging) -> Iterator[Shard]:
    paths = map(staging.path, itertools.count())
    filling: dict[str, list[Row]] = {part: [] for part in split.parts}
    for row, part in zip(source.rows, split.draws(request.seed), strict=False):
        filling[part].append(row)
        if len(filling[part]) == request.records_per_file:
            yield Shard(next(paths), part, filling[part])
            filling[part] = []
    for part, rows in filling.items():
        if rows:
            yield Shard(next(paths), part, rows)


def _processes(request: ConvertRequest, staging: Staging) -> int:
    return request.processes or len(os.sched_getaffinity(0)) if staging.shared else 1

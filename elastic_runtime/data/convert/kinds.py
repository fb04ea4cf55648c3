"""Which kind of source a location is: as asked for, or by the names of its files."""

from __future__ import annotations

from collections.abc import Callable

from elastic_runtime.data import storage
from elastic_runtime.data.convert.arrays import open_arrays
from elastic_runtime.data.convert.csv import open_csv
from elastic_runtime.data.convert.images import open_images
from elastic_runtime.data.convert.jsonl import open_jsonl
from elastic_runtime.data.convert.request import KINDS, ConvertRequest
from elastic_runtime.data.convert.rows import Source
from elastic_runtime.data.convert.tfrecord import open_tfrecord
from elastic_runtime.errors import InputError

_OPEN: dict[str, Callable[[ConvertRequest], Source]] = {
    "arrays": open_arrays,
    "csv": open_csv,
    "images": open_images,
    "jsonl": open_jsonl,
    "tfrecord": open_tfrecord,
}
_OPTIONS = {
    "schema": ("arrays", "csv", "jsonl"),
    "delimiter": ("csv",),
    "image_size": ("images",),
    "image_mode": ("images",),
}
_ENDINGS = {
    "arrays": (".npz", ".idx", "-ubyte"),
    "csv": (".csv", ".tsv", ".tab"),
    "jsonl": (".jsonl", ".ndjson"),
    "tfrecord": (".tfrecord", ".tfrecords"),
}


def open_source(request: ConvertRequest) -> Source:
    """The rows of the request's source. An option that its kind does not know is refused."""
    kind = request.kind or _kind(request.source)
    refuse_what_others_take(request, kind)
    return _OPEN[kind](request)


def refuse_what_others_take(request: ConvertRequest, kind: str) -> None:
    """An option that sources of this kind do not know would have no effect."""
    for option, kinds in _OPTIONS.items():
        if getattr(request, option) and kind not in kinds:
            raise InputError(f"{option} is for {' and '.join(kinds)}, not for {kind}", where=request.source)


def _kind(location: str) -> str:
    if storage.is_folder(location) and (names := storage.entries(location)) and all(names.values()):
        return "images"
    file = storage.list_files(location)[0]
    name = file.removesuffix(".gz")
    for kind, endings in _ENDINGS.items():
        if name.endswith(endings):
            return kind
    raise InputError(
        "the file's name does not tell its kind", where=file, remedy=f"give --kind: {', '.join(KINDS)}"
    )

"""The conversion step: a dataset of some other kind becomes RecordIO files, and a page of samples."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping
from typing import Any

from elastic_runtime.data import inspect, mnist, storage
from elastic_runtime.data.convert import ConvertRequest, ConvertResult
from elastic_runtime.data.convert import convert as convert_files
from elastic_runtime.data.convert.images import parse_size
from elastic_runtime.data.convert.kinds import refuse_what_others_take
from elastic_runtime.data.convert.request import KINDS
from elastic_runtime.data.convert.schema import parse as parse_schema
from elastic_runtime.data.convert.split import parse_split
from elastic_runtime.errors import InputError, nearest
from elastic_runtime.steps.artifact import (
    Artifact,
    location,
    refuse_what_kfp_does_not_find,
    write_text,
)
from elastic_runtime.steps.options import known
from elastic_runtime.steps.samples import Part, samples_page

log = logging.getLogger(__name__)

MNIST = "mnist"
LINE_SECONDS = 10.0


def convert(
    *,
    dataset: Artifact,
    samples: Artifact,
    source: str = "",
    source_dataset: Artifact | None = None,
    format: str = "",  # noqa: A002 - as users call it
    schema: str = "",
    split: str = "",
    records_per_file: int = 4096,
    on_error: str = "fail",
    seed: int = 0,
    delimiter: str = "",
    image_size: str = "",
    image_mode: str = "",
    output: str = "",
) -> int:
    """Write the dataset, tell of it in `samples`, and return the number of records.

    It goes to `output` if that is given, otherwise where the artifact is to be. The format `mnist` without a
    source is the small sample that comes with this package.
    """
    check(dict(locals()))
    refuse_what_kfp_does_not_find(output, dataset)
    is_mnist = format == MNIST
    given = source if source_dataset is None else location(source_dataset)
    request = ConvertRequest(
        source=given or (mnist.sample() if is_mnist else ""),
        output=output or dataset.path,
        kind="" if is_mnist else format,
        schema=schema,
        split=split,
        records_per_file=int(records_per_file),
        on_error=on_error,
        seed=int(seed),
        delimiter=delimiter,
        image_size=image_size,
        image_mode=image_mode,
    )
    results = _convert_mnist(request) if is_mnist else [convert_files(request, _Lines())]
    rejects = sum(result.rejects for result in results)
    pictures = results[0].pictures
    names = parts_made({"format": format, "split": split})
    parts = [_part(name, request.output) for name in names or ("",)]
    if output:
        dataset.uri = storage.absolute(output)
    records = sum(part.records for part in parts)
    dataset.metadata |= {"format": "RecordIO", "records": records}
    if names:
        dataset.metadata["splits"] = {part.name: part.records for part in parts}
    if pictures:
        dataset.metadata["shapes"] = {name: "x".join(map(str, shape)) for name, shape in pictures.items()}
    write_text(samples, samples_page(given or MNIST, parts, rejects, pictures))
    return records


def check(given: Mapping[str, object]) -> None:
    """Refuse what is known to be wrong before anything runs; what is known only then is left to the step."""
    plain = known(given)
    kind = str(plain.get("format", ""))
    if kind not in ("", MNIST, *KINDS):
        raise InputError(f"unknown format {kind!r}", where="format", remedy=nearest(kind, (MNIST, *KINDS)))
    _check_source(given, plain)
    names = {field.name for field in dataclasses.fields(ConvertRequest)}
    values: dict[str, Any] = {name: value for name, value in plain.items() if name in names}
    request = ConvertRequest(**{"source": "", "output": "", **values})
    parse_split(request.split)
    parse_schema(request.schema)
    parse_size(request.image_size)
    if kind == MNIST:
        _refuse_what_mnist_has(request)
    elif kind:
        refuse_what_others_take(request, kind)


def parts_made(given: Mapping[str, object]) -> tuple[str, ...]:
    """The parts that come of a conversion with these arguments; none if it is one whole, or not known yet."""
    plain = known(given)
    is_mnist = plain.get("format") == MNIST
    names = ("train", "test") if is_mnist else parse_split(str(plain.get("split", ""))).parts
    return names if names != ("",) else ()


def _check_source(given: Mapping[str, object], plain: Mapping[str, object]) -> None:
    """There is one; of the format mnist there need not be."""
    has_dataset = given.get("source_dataset") is not None
    if plain.get("source") and has_dataset:
        raise InputError("both source and source_dataset are given", remedy="leave one of them out")
    is_told = "format" in plain or not given.get("format")
    if is_told and plain.get("format") != MNIST and not given.get("source") and not has_dataset:
        raise InputError("nothing says what to convert", remedy="give source or source_dataset")


def _refuse_what_mnist_has(request: ConvertRequest) -> None:
    for field in dataclasses.fields(request):
        if field.name not in ("source", "output") and getattr(request, field.name) != field.default:
            what = f"the format mnist has a {field.name} of its own"
            raise InputError(what, where=field.name, remedy="leave it out")


def _convert_mnist(request: ConvertRequest) -> list[ConvertResult]:
    return list(mnist.convert_mnist(request.output, request.source, _Lines()).values())


def _part(name: str, output: str) -> Part:
    """What was written; chance may leave a small part empty."""
    folder = storage.join(output, name) if name else output
    if all(storage.entries(folder).values()):
        return Part(name, folder, records=0, files=0)
    files = inspect.facts(folder)
    return Part(name, folder, records=sum(file.records for file in files), files=len(files))


class _Lines:
    """Says now and then how far it is."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, done: int, total: int | None) -> None:
        if time.monotonic() - self._said >= LINE_SECONDS:
            self._said = time.monotonic()
            log.info("%d%s records converted", done, f" of {total}" if total else "")

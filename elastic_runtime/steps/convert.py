"""The conversion step: a dataset of some other kind becomes RecordIO files, and a page of samples."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping
from typing import Any

from elastic_runtime.data import inspect, mnist, storage
from elastic_runtime.data.convert import ConvertRequest
from elastic_runtime.data.convert import convert as convert_files
from elastic_runtime.data.convert.split import parse_split
from elastic_runtime.errors import InputError
from elastic_runtime.steps.artifact import Artifact, location, write_text
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
    is_mnist = format == MNIST
    given = _source(source, source_dataset)
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
    if not request.source:
        raise InputError("nothing says what to convert", remedy="give source or source_dataset")
    rejects = _convert_mnist(request) if is_mnist else convert_files(request, _Lines()).rejects
    names = ("train", "test") if is_mnist else parse_split(split).parts
    parts = [_part(name, request.output) for name in names]
    if output:
        dataset.uri = storage.absolute(output)
    records = sum(part.records for part in parts)
    dataset.metadata |= {"format": "RecordIO", "records": records}
    if names != ("",):
        dataset.metadata["splits"] = {part.name: part.records for part in parts}
    write_text(samples, samples_page(given or MNIST, parts, rejects))
    return records


def check(given: Mapping[str, object]) -> None:
    """Refuse what is known to be wrong before anything runs; what is known only then is left to the step."""
    plain = known(given)
    if plain.get("format") == MNIST:
        del plain["format"]
    kind = {"kind": plain.pop("format")} if "format" in plain else {}
    names = {field.name for field in dataclasses.fields(ConvertRequest)}
    values: dict[str, Any] = {name: value for name, value in plain.items() if name in names}
    ConvertRequest(**{"source": "", "output": "", **values, **kind})
    parse_split(values.get("split", ""))


def _source(source: str, dataset: Artifact | None) -> str:
    if source and dataset is not None:
        raise InputError("both source and source_dataset are given", remedy="leave one of them out")
    return source if dataset is None else location(dataset)


def _convert_mnist(request: ConvertRequest) -> int:
    for field in dataclasses.fields(request):
        if field.name not in ("source", "output") and getattr(request, field.name) != field.default:
            what = f"the format mnist has a {field.name} of its own"
            raise InputError(what, where=field.name, remedy="leave it out")
    results = mnist.convert_mnist(request.output, request.source, _Lines())
    return sum(result.rejects for result in results.values())


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

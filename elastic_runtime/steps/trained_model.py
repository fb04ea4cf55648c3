"""A finished model in this process, with the module it came from: records in, outputs out, in their order.

Evaluation and prediction run here and not as jobs of their own: what they are for, outputs record by record,
is just what workers do not send to their master, and a forward pass seldom needs more than the cores of one
machine. `elasticdl evaluate` and `predict` are there for data that do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastic_runtime.data.readers import Metadata, Reader, adapt, open_reader
from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.model.module import ModelModule, load
from elastic_runtime.model.network import split
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.model_path import resolve
from elastic_runtime.spec.model_text import check_symbols, renamed
from elastic_runtime.steps.artifact import Artifact
from elastic_runtime.worker.feed import ShardFeed

_BATCHES_AT_A_TIME = 32


@dataclass(frozen=True, slots=True)
class Records:
    """Some records of one source, the model's outputs for them, and their labels if there are any."""

    source: str
    start: int
    records: list[bytes]
    batches: Iterator[tuple[Any, Any]]
    """Labels and outputs of each batch."""


def specification(model: Artifact, given: Mapping[str, object], **data: str) -> JobSpec:
    """How to use the model: as it was trained, unless something else is given."""
    known = {name: value for name, value in model.metadata.items() if name in JobSpec.model_fields}
    values = known | {name: value for name, value in given.items() if value} | data
    if not values.get("model_def"):
        remedy = "give model_def (and model_zoo), or a model that the step train has made"
        raise InputError("nothing says what module the model is from", where=model.uri, remedy=remedy)
    fixed = {"job_name": "step", "checkpoint_dir_for_init": model.path, "platform": "process"}
    spec = JobSpec.make(values | fixed, [])
    check_symbols(spec)
    return spec


class TrainedModel:
    """An exported model, ready for the records of one place."""

    def __init__(self, model: Artifact, spec: JobSpec, *, mode: str, origin: str) -> None:
        path = resolve(spec.model_zoo, spec.model_def)
        zoo = Path(spec.model_zoo) if spec.model_zoo else None
        self._spec = spec
        self.module = load(
            path.file, path.symbol, names=renamed(spec), model_params=spec.model_arguments, zoo=zoo
        )
        self._network = _exported(Path(model.path))
        self._reader = _reader(spec, self.module, origin)
        metadata = self._reader.metadata if isinstance(self._reader.metadata, Metadata) else Metadata()
        self._feed = ShardFeed(
            feed=self.module.feed, mode=mode, metadata=metadata, batch_size=spec.minibatch_size
        )

    @property
    def element_spec(self) -> Any:
        """The form of a batch."""
        return self._feed.element_spec

    def outputs(self, features: Any) -> Any:
        """What the model makes of a batch of features."""
        try:
            return self._network(features, training=False)
        except Exception as error:
            what = f"the model cannot use what feed gives: {type(error).__name__}: {error}"
            raise ElasticError(what, where="feed") from error

    def run(self) -> Iterator[Records]:
        """All records, in order; each element's batches have to be used up before the next."""
        with contextlib.closing(self._feed):
            waiting: list[tuple[int, str, int, list[bytes]]] = []
            for number, (source, start, end) in enumerate(self._ranges()):
                records = self._reader.read(source, start, end)
                self._feed.put(number, records)  # the feed reads ahead while the one before is computed
                waiting.append((number, source, start, records))
                if len(waiting) > 1:
                    yield self._records(*waiting.pop(0))
            for rest in waiting:
                yield self._records(*rest)

    def _records(self, number: int, source: str, start: int, records: list[bytes]) -> Records:
        pairs = (split(batch) for batch in self._feed.batches(number))
        return Records(
            source, start, records, ((labels, self.outputs(features)) for features, labels in pairs)
        )

    def _ranges(self) -> Iterator[tuple[str, int, int]]:
        size = self._spec.minibatch_size * _BATCHES_AT_A_TIME
        for source in self._reader.sources():
            end = source.start + source.records
            yield from ((source.name, at, min(at + size, end)) for at in range(source.start, end, size))


def _reader(spec: JobSpec, module: ModelModule, origin: str) -> Reader:
    arguments = spec.reader_arguments
    if module.custom_data_reader is not None:
        return adapt(module.custom_data_reader(origin, records_per_task=spec.records_per_task, **arguments))
    return open_reader(origin, {name: str(value) for name, value in arguments.items()})


def _exported(folder: Path) -> Any:
    """The model that the training step has written."""
    import keras  # the module's own import of it is the slow one

    file = folder / "model.keras"
    if not file.is_file():
        raise InputError(
            "there is no model.keras", where=str(folder), remedy="give the output of the step train"
        )
    try:
        return keras.saving.load_model(file, compile=False)
    except (ValueError, TypeError, OSError) as error:
        what = f"the model cannot be loaded: {str(error).partition(chr(10))[0]}"
        remedy = "classes that the model needs have to be in the module that model_def names"
        raise ElasticError(what, where=str(file), remedy=remedy) from error

"""The prediction step: a finished model's outputs for each record of a dataset, as a dataset.

Each record of the result holds `prediction` (or `prediction/<name>` for each output of several), where the
record it is for lies (`source`, `index`), and those features of it that are to be kept. A module's own
`PredictionOutputsProcessor` belongs to `elasticdl predict`; nothing here calls it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from elastic_runtime.data import storage
from elastic_runtime.data.convert.staging import Staging
from elastic_runtime.data.example import decode, encode
from elastic_runtime.data.recordio import Writer
from elastic_runtime.errors import ElasticError, InputError, nearest
from elastic_runtime.layers.mode import Mode
from elastic_runtime.steps.artifact import Artifact, location, refuse_what_kfp_does_not_find
from elastic_runtime.steps.model_use import check
from elastic_runtime.steps.trained_model import Records, TrainedModel, specification

log = logging.getLogger(__name__)


def predict(
    *,
    model: Artifact,
    dataset: Artifact,
    predictions: Artifact,
    split: str = "",
    keep: str = "",
    records_per_file: int = 4096,
    output: str = "",
    **options: object,
) -> int:
    """Predict, and return the number of records; `options` say how to use the model, as in `evaluate`."""
    check(options | {"records_per_file": records_per_file})
    refuse_what_kfp_does_not_find(output, predictions)
    origin, place = location(dataset, split), output or predictions.path
    spec = specification(model, options, prediction_data=origin)
    trained = TrainedModel(model, spec, mode=Mode.PREDICTION, origin=origin)
    kept = [name.strip() for name in keep.split(",") if name.strip()]
    examples = (example for part in trained.run() for example in _examples(part, kept))
    written = _write(examples, place, int(records_per_file))
    if output:
        predictions.uri = storage.absolute(output)
    predictions.metadata |= {"format": "RecordIO", "records": written}
    log.info("predictions for %d records", written)
    return written


def _write(examples: Iterator[bytes], place: str, records_per_file: int) -> int:
    """Put all in place together, instead of what an earlier attempt has left there."""
    files: list[str] = []
    written = 0
    with Staging(place, ("",)) as staging:
        while (first := next(examples, None)) is not None:
            files.append(staging.path(len(files)))
            with Writer(files[-1]) as writer:
                for example in (first, *islice(examples, records_per_file - 1)):
                    writer.write(example)
                    written += 1
        staging.commit((file, "") for file in files)
    return written


def _examples(part: Records, kept: Sequence[str]) -> Iterator[bytes]:
    rows = [row for _, outputs in part.batches for row in _rows(outputs)]
    if len(rows) != len(part.records):
        raise ElasticError(
            f"feed made {len(rows)} of {len(part.records)} records: no telling which prediction is whose",
            where=f"records {part.start}-{part.start + len(part.records)} of {part.source}",
            remedy="in prediction mode feed has to give each record once, in order",
        )
    for place, (record, row) in enumerate(zip(part.records, rows, strict=True)):
        where: dict[str, Any] = {"source": part.source, "index": part.start + place}
        yield encode(where | _kept(record, kept) | row)


def _rows(outputs: Any) -> Iterator[dict[str, Any]]:
    """A batch's outputs record by record, under their names."""
    named = outputs if isinstance(outputs, Mapping) else {"": outputs}
    if isinstance(outputs, list | tuple):
        named = {str(place): output for place, output in enumerate(outputs)}
    arrays = {
        f"prediction/{name}" if name else "prediction": np.asarray(values, np.float32)
        for name, values in named.items()
    }
    for place in range(len(next(iter(arrays.values())))):
        yield {name: values[place].ravel() for name, values in arrays.items()}


def _kept(record: bytes, names: Sequence[str]) -> dict[str, Any]:
    if not names:
        return {}
    features = decode(record)
    for name in names:
        if name not in features:
            raise InputError(f"there is no feature {name!r}", where="keep", remedy=nearest(name, features))
    return {name: features[name] for name in names}

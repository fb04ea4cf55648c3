"""The evaluation step: figures, confusion matrix and ROC curve of a finished model on a dataset."""

from __future__ import annotations

import json
import logging
import math
import time

from elastic_runtime.errors import InputError
from elastic_runtime.layers.mode import Mode
from elastic_runtime.observe import words
from elastic_runtime.steps.artifact import Artifact, location, write_text
from elastic_runtime.steps.model_use import check
from elastic_runtime.steps.score_page import score_page
from elastic_runtime.steps.scores import Scores
from elastic_runtime.steps.trained_model import TrainedModel, specification
from elastic_runtime.worker.metrics import Evaluator

log = logging.getLogger(__name__)


def evaluate(
    *,
    model: Artifact,
    dataset: Artifact,
    metrics: Artifact,
    classification: Artifact,
    report: Artifact,
    split: str = "",
    class_names: str = "",
    **options: object,
) -> None:
    """Evaluate the model; `options` say otherwise than the model's own metadata how to use it."""
    check(options)
    began = time.monotonic()
    origin = location(dataset, split)
    spec = specification(model, options, validation_data=origin)
    trained = TrainedModel(model, spec, mode=Mode.EVALUATION, origin=origin)
    evaluator = Evaluator({"loss": trained.module.loss} | dict(trained.module.create_metrics()))
    evaluator.build(trained.element_spec, trained.outputs)
    scores, records = Scores(), 0
    for part in trained.run():
        for labels, outputs in part.batches:
            evaluator.update(labels, outputs)
            scores.update(labels, outputs)
            if not records:  # before all the work is done
                _names(class_names, scores)
        records += len(part.records)
    found = evaluator.result(evaluator.state())
    log.info("%d records in %.1f s: %s", records, time.monotonic() - began, words.metrics(found))
    metrics.metadata |= {name: value for name, value in found.items() if math.isfinite(value)}
    metrics.metadata["records"] = float(records)
    write_text(metrics, json.dumps(metrics.metadata, indent=2) + "\n")
    names = _names(class_names, scores)
    _tell(classification, scores, names)
    write_text(report, score_page(found, scores, names, records=records, model=model.uri, data=origin))


def _names(text: str, scores: Scores) -> list[str]:
    classes = 0 if scores.confusion is None else len(scores.confusion)
    names = [name.strip() for name in text.split(",")] if text.strip() else [str(n) for n in range(classes)]
    if classes and len(names) != classes:
        raise InputError(
            f"{len(names)} names for {classes} classes", where="class_names", remedy="write a,b,c"
        )
    return names


def _tell(classification: Artifact, scores: Scores, names: list[str]) -> None:
    """In the form of KFP's own ClassificationMetrics; nothing if the model is no classifier."""
    if scores.confusion is None:
        log.info("neither confusion matrix nor ROC curve: %s", scores.obstacle or "there are no records")
    else:
        classification.metadata["confusionMatrix"] = {
            "annotationSpecs": [{"displayName": name} for name in names],
            "rows": [{"row": [float(count) for count in row]} for row in scores.confusion],
        }
    if points := scores.roc():
        classification.metadata["confidenceMetrics"] = [
            {
                "confidenceThreshold": point.threshold,
                "recall": point.recall,
                "falsePositiveRate": point.false_positive_rate,
            }
            for point in points
        ]
    write_text(classification, json.dumps(classification.metadata, indent=2) + "\n")

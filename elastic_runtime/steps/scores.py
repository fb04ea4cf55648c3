"""How a classifier's outputs compare with the labels: confusion matrix and ROC curve, batch by batch.

Memory does not grow with the data: probabilities are counted in narrow bins, and the curve's thresholds are
chosen from them where the curve moves. With several classes the curve takes each class against the rest, all
together (micro-average).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

BINS = 10_000
MOST_THRESHOLDS = 100
MOST_CLASSES = 100


@dataclass(frozen=True, slots=True)
class RocPoint:
    """The shares of positives and negatives at or above a threshold."""

    threshold: float
    recall: float
    false_positive_rate: float


class Scores:
    """Takes batches in; `confusion` and `roc` tell the result, if the model is a classifier at all."""

    def __init__(self) -> None:
        self._confusion: Array | None = None
        self._positives, self._negatives = np.zeros(BINS + 1, np.int64), np.zeros(BINS + 1, np.int64)
        self._is_probability: bool | None = None
        self._classifies = True

    @property
    def confusion(self) -> Array | None:
        """How often each class (row) was taken for each (column); None if there are no classes."""
        return self._confusion if self._classifies else None

    def update(self, labels: Any, outputs: Any) -> None:
        """Take in one batch; labels or outputs of another form than a classifier's end the counting."""
        if not self._classifies:
            return
        prepared = _prepared(labels, outputs)
        if prepared is None:
            self._classifies = False
            return
        truth, scores = prepared
        probabilities = self._probabilities(scores)
        classes = probabilities.shape[1]
        if self._confusion is None:
            self._confusion = np.zeros((classes, classes), np.int64)
        np.add.at(self._confusion, (truth, probabilities.argmax(axis=1)), 1)
        self._count(truth, probabilities)

    def roc(self) -> list[RocPoint]:
        """The curve from (0, 0) to (1, 1), at most `MOST_THRESHOLDS` points, highest threshold first."""
        positives, negatives = (counts[::-1].cumsum() for counts in (self._positives, self._negatives))
        if self.confusion is None or not positives[-1] or not negatives[-1]:
            return []
        recall, false = positives / positives[-1], negatives / negatives[-1]
        along = recall + false
        places = np.searchsorted(along, np.linspace(0, 2, MOST_THRESHOLDS - 1))
        chosen = np.unique(np.minimum(places, BINS))
        points = [RocPoint((BINS - int(at)) / BINS, float(recall[at]), float(false[at])) for at in chosen]
        return (
            [RocPoint(1.0, 0.0, 0.0), *points]
            if points[0].recall or points[0].false_positive_rate
            else points
        )

    def _probabilities(self, scores: Array) -> Array:
        """Two columns or more; what the first batch shows to be logits is made probabilities."""
        if self._is_probability is None:
            whole = scores.shape[1] == 1 or np.allclose(scores.sum(axis=1), 1, atol=1e-3)
            self._is_probability = bool(whole and scores.min() >= 0 and scores.max() <= 1)
        if scores.shape[1] == 1:
            positive = scores if self._is_probability else 1 / (1 + np.exp(-np.clip(scores, -500, 500)))
            return np.hstack([1 - positive, positive])
        if self._is_probability:
            return scores
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: Array = powers / powers.sum(axis=1, keepdims=True)
        return shares

    def _count(self, truth: Array, probabilities: Array) -> None:
        is_true = np.arange(probabilities.shape[1]) == truth[:, None]
        if probabilities.shape[1] == 2:  # one class against the other says it all
            is_true, probabilities = is_true[:, 1:], probabilities[:, 1:]
        bins = np.clip(np.nan_to_num(probabilities) * BINS, 0, BINS).astype(np.int64)
        self._positives += np.bincount(bins[is_true], minlength=BINS + 1)
        self._negatives += np.bincount(bins[~is_true], minlength=BINS + 1)


def area_under(points: list[RocPoint]) -> float:
    """The area under the curve."""
    xs, ys = [p.false_positive_rate for p in points], [p.recall for p in points]
    return float(np.trapezoid(ys, xs))


def _prepared(labels: Any, outputs: Any) -> tuple[Array, Array] | None:
    """Class numbers and a row of scores for each record; None if these are not a classifier's."""
    if isinstance(labels, dict | tuple | list) or isinstance(outputs, dict | tuple | list) or labels is None:
        return None
    truth, scores = np.asarray(labels), np.asarray(outputs, np.float64)
    rows = scores.shape[0]
    scores = scores.reshape(rows, -1)
    classes = max(2, scores.shape[1])
    if (
        scores.ndim != 2
        or classes > MOST_CLASSES
        or truth.shape[:1] != (rows,)
        or truth.dtype.kind not in "biuf"
    ):
        return None
    truth = truth.reshape(rows, -1)
    if truth.shape[1] == classes > 1 and set(np.unique(truth)) <= {0, 1}:  # one-hot
        truth = truth.argmax(axis=1)[:, None]
    if truth.shape[1] != 1 or not np.all(np.isin(truth, np.arange(classes))):
        return None
    return truth[:, 0].astype(np.int64), scores

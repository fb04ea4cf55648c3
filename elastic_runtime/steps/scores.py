"""How a classifier's outputs compare with the labels: confusion matrix and ROC curve, batch by batch.

Memory does not grow with the data: probabilities are counted in narrow bins, and the curve's thresholds are
chosen from them where the curve moves. Whether outputs are probabilities or logits only all of them together
tell, so both are counted until one is seen that is no probability. With several classes the curve takes each
class against the rest, all together (micro-average).
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
_ROUNDING = 5e-3
"""By which probabilities of half precision may miss their range and their sum."""


@dataclass(frozen=True, slots=True)
class RocPoint:
    """The shares of positives and negatives at or above a threshold."""

    threshold: float
    recall: float
    false_positive_rate: float


class Scores:
    """Takes batches in; `confusion` and `roc` tell the result, or `obstacle` why there is none."""

    def __init__(self) -> None:
        self.obstacle = ""
        self._as_probabilities: _Counts | None = None
        self._as_logits: _Counts | None = None
        self._are_probabilities = True

    @property
    def confusion(self) -> Array | None:
        """How often each class (row) was taken for each (column); None if there are no classes."""
        counts = self._counts
        return counts.confusion if counts else None

    def update(self, labels: Any, outputs: Any) -> None:
        """Take in one batch; labels or outputs of another form than a classifier's end the counting."""
        if self.obstacle:
            return
        prepared = _prepared(labels, outputs)
        if isinstance(prepared, str):
            self.obstacle = prepared
            return
        truth, scores = prepared
        classes = max(2, scores.shape[1])
        if self._as_logits is None:
            self._as_logits, self._as_probabilities = _Counts(classes), _Counts(classes)
        self._as_logits.add(truth, _from_logits(scores))
        self._are_probabilities = self._are_probabilities and _may_be_probabilities(scores)
        if self._are_probabilities and self._as_probabilities:
            self._as_probabilities.add(truth, scores)

    def roc(self) -> list[RocPoint]:
        """The curve from (0, 0) to (1, 1), at most `MOST_THRESHOLDS` points, highest threshold first."""
        counts = self._counts
        return counts.roc() if counts else []

    @property
    def _counts(self) -> _Counts | None:
        if self.obstacle:
            return None
        return self._as_probabilities if self._are_probabilities else self._as_logits


class _Counts:
    """What outputs amount to, if one column or one for each class is taken for probabilities."""

    def __init__(self, classes: int) -> None:
        self.confusion: Array = np.zeros((classes, classes), np.int64)
        self._positives, self._negatives = np.zeros(BINS + 1, np.int64), np.zeros(BINS + 1, np.int64)

    def add(self, truth: Array, probabilities: Array) -> None:
        if probabilities.shape[1] == 1:
            probabilities = np.hstack([1 - probabilities, probabilities])
        np.add.at(self.confusion, (truth, probabilities.argmax(axis=1)), 1)
        is_true = np.arange(probabilities.shape[1]) == truth[:, None]
        if probabilities.shape[1] == 2:  # one class against the other says it all
            is_true, probabilities = is_true[:, 1:], probabilities[:, 1:]
        bins = np.clip(np.nan_to_num(probabilities) * BINS, 0, BINS).astype(np.int64)
        self._positives += np.bincount(bins[is_true], minlength=BINS + 1)
        self._negatives += np.bincount(bins[~is_true], minlength=BINS + 1)

    def roc(self) -> list[RocPoint]:
        positives, negatives = (counts[::-1].cumsum() for counts in (self._positives, self._negatives))
        if not positives[-1] or not negatives[-1]:
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


def _may_be_probabilities(scores: Array) -> bool:
    """Whether nothing here says otherwise; an undefined value says nothing."""
    beyond = (scores < -_ROUNDING) | (scores > 1 + _ROUNDING)
    if scores.shape[1] > 1:
        beyond |= np.abs(scores.sum(axis=1, keepdims=True) - 1) > _ROUNDING
    return not beyond.any()


def _from_logits(scores: Array) -> Array:
    if scores.shape[1] == 1:
        positive: Array = 1 / (1 + np.exp(-np.clip(scores, -500, 500)))
        return positive
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def area_under(points: list[RocPoint]) -> float:
    """The area under the curve."""
    xs, ys = [p.false_positive_rate for p in points], [p.recall for p in points]
    return float(np.trapezoid(ys, xs))


def _prepared(labels: Any, outputs: Any) -> tuple[Array, Array] | str:
    """Class numbers and a row of scores for each record, or why these are not a classifier's."""
    no_classifier = "labels and outputs are not those of a classifier"
    if isinstance(labels, dict | tuple | list) or isinstance(outputs, dict | tuple | list) or labels is None:
        return no_classifier
    truth, scores = np.asarray(labels), np.asarray(outputs, np.float64)
    rows = scores.shape[0]
    scores = scores.reshape(rows, -1)
    classes = max(2, scores.shape[1])
    if truth.shape[:1] != (rows,) or truth.dtype.kind not in "biuf":
        return no_classifier
    if classes > MOST_CLASSES:
        return f"there are more than {MOST_CLASSES} outputs for a record"
    truth = truth.reshape(rows, -1)
    if truth.shape[1] == classes and np.all((truth == 0) | (truth == 1)):
        if np.any(truth.sum(axis=1) != 1):
            return "a record may have several labels, or none (multi-label)"
        truth = truth.argmax(axis=1)[:, None]
    if truth.shape[1] != 1 or not np.all(np.isin(truth, np.arange(classes))):
        return no_classifier
    return truth[:, 0].astype(np.int64), scores

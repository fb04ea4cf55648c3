"""Confusion matrix and ROC curve are those that all outputs together give, whatever form they have."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from elastic_runtime.steps.score_page import score_page
from elastic_runtime.steps.scores import MOST_THRESHOLDS, Scores, area_under


def scored(labels, outputs, batch: int = 64) -> Scores:
    scores = Scores()
    for start in range(0, len(labels), batch):
        scores.update(labels[start : start + batch], outputs[start : start + batch])
    return scores


def exact_area(labels: np.ndarray, outputs: np.ndarray) -> float:
    """How often a positive has more than a negative: what the area under the curve means."""
    positives, negatives = outputs[labels == 1], outputs[labels == 0]
    return float(np.mean(positives[:, None] > negatives) + np.mean(positives[:, None] == negatives) / 2)


@pytest.fixture
def two_classes() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 2000)
    return labels, random.normal(size=2000) + 1.5 * labels


def test_the_area_is_how_often_a_positive_has_the_higher_score(two_classes) -> None:
    labels, logits = two_classes
    points = scored(labels, logits[:, None]).roc()
    assert area_under(points) == pytest.approx(exact_area(labels, logits), abs=2e-3)
    assert 50 < len(points) <= MOST_THRESHOLDS
    assert [points[0].recall, points[0].false_positive_rate] == [0, 0]
    assert [points[-1].recall, points[-1].false_positive_rate] == [1, 1]
    assert all(a.threshold >= b.threshold and a.recall <= b.recall for a, b in pairwise(points))


@pytest.mark.parametrize("form", ["logit", "probability", "two columns", "flat", "float labels", "one-hot"])
def test_every_form_of_a_binary_classifier_gives_the_same_matrix(two_classes, form: str) -> None:
    labels, logits = two_classes
    probabilities = 1 / (1 + np.exp(-logits))
    outputs = {
        "probability": probabilities[:, None],
        "two columns": np.stack([1 - probabilities, probabilities], axis=1),
        "flat": logits,
        "one-hot": np.stack([1 - probabilities, probabilities], axis=1),
    }.get(form, logits[:, None])
    given = {"float labels": labels.astype(float)[:, None], "one-hot": np.eye(2)[labels]}.get(form, labels)
    wanted = [[np.sum((labels == row) & ((logits > 0) == column)) for column in (0, 1)] for row in (0, 1)]
    assert scored(given, outputs).confusion.tolist() == wanted


def test_many_classes_are_taken_each_against_the_rest() -> None:
    random = np.random.default_rng(2)
    labels = random.integers(0, 5, 3000)
    logits = random.normal(size=(3000, 5)) + 2 * np.eye(5)[labels]
    scores = scored(labels, logits)
    assert scores.confusion.sum() == 3000
    assert scores.confusion.trace() == np.sum(logits.argmax(axis=1) == labels)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    exact = exact_area(np.eye(5)[labels].ravel(), shares.ravel())
    assert area_under(scores.roc()) == pytest.approx(exact, abs=2e-3)


@pytest.mark.parametrize(
    ("labels", "outputs"),
    [
        (np.array([1.5, 2.25]), np.array([[1.0], [2.0]])),
        (np.array([1, 7]), np.array([[0.5, 0.5], [0.5, 0.5]])),
        ({"a": np.array([1])}, np.array([[1.0]])),
        (np.array(["cat"]), np.array([[1.0]])),
        (None, np.array([[1.0]])),
        (np.array([0]), np.zeros((1, 1000))),
    ],
)
def test_what_is_no_classifier_has_neither(labels, outputs) -> None:
    scores = Scores()
    scores.update(labels, outputs)
    assert scores.confusion is None
    assert scores.roc() == []


@pytest.mark.parametrize("row", [[0, 0, 0], [1, 0, 1]])
def test_records_of_several_labels_or_none_have_no_matrix_and_the_reason_is_told(row) -> None:
    labels = np.vstack([np.eye(3, dtype=int)] * 20 + [np.array([row])])
    scores = scored(labels, np.full(labels.shape, 0.5))
    assert (scores.confusion, scores.roc()) == (None, [])
    assert "multi-label" in scores.obstacle
    page = score_page({}, scores, [], records=61, model="m", data="d")
    assert "neither confusion matrix nor ROC curve: a record may have several labels" in page


def test_logits_are_told_from_all_batches_and_not_from_the_first() -> None:
    logits = np.array([0.2, 0.9, 0.4, 0.1, -3.0, -2.0, 4.0, -0.5])
    labels = (logits > 0).astype(int)
    scores = scored(labels, logits[:, None], batch=4)
    assert scores.confusion.tolist() == [[3, 0], [0, 5]]
    assert max(point.threshold for point in scores.roc() if point.recall == 1) > 0.5


def test_probabilities_stay_such_beside_undefined_ones_and_those_of_half_precision() -> None:
    shares = np.array([[0.6, 0.2, 0.2], [np.nan, 0.5, 0.5], [0.3332, 0.3332, 0.3332], [0.0, 0.0, 1.002]])
    scores = scored(np.array([0, 1, 1, 2]), shares, batch=1)
    certain = [point for point in scores.roc() if point.recall == 0.25]
    assert certain[0].threshold == 1, "as a logit 1.002 is a share of 0.58"


def test_one_class_only_has_no_curve() -> None:
    scores = scored(np.ones(10, int), np.linspace(-1, 1, 10)[:, None])
    assert scores.roc() == []
    assert scores.confusion.sum() == 10


def test_perfect_and_hopeless_and_undefined_outputs_are_counted() -> None:
    labels = np.array([0, 0, 1, 1])
    assert area_under(scored(labels, np.array([[0.0], [0.0], [1.0], [1.0]])).roc()) == 1.0
    assert area_under(scored(labels, np.array([[1.0], [1.0], [0.0], [0.0]])).roc()) == 0.0
    assert scored(labels, np.full((4, 1), np.nan)).confusion.sum() == 4

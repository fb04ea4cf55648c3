"""Metrics over shards, added up, are the metrics of all of it."""

import itertools

import numpy as np
import pytest

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.master.evaluation.states import MetricState, add

pytestmark = pytest.mark.tensorflow

RANDOM = np.random.default_rng(1)
LABELS = RANDOM.integers(0, 2, (37, 1))
OUTPUTS = RANDOM.uniform(size=(37, 1)).astype(np.float32)


def evaluator(metrics):
    from elastic_runtime.worker.metrics import Evaluator

    return Evaluator(metrics)


def summed(evaluators):
    """What the master does with the states of several workers."""
    sums = None
    for each in evaluators:
        sums = add(sums, [MetricState(name, tuple(arrays), rule) for name, arrays, rule in each.state()])
    return [(s.name, list(s.variables), s.rule) for s in sums]


def over_shards(create, labels, outputs, cuts=(0, 5, 5, 20, 37)):
    workers = []
    for start, end in itertools.pairwise(cuts):
        workers.append(evaluator(create()))
        for at in range(start, end, 8):
            rows = slice(at, min(at + 8, end))
            workers[-1].update(labels[rows], outputs[rows])
    return evaluator(create()).result(summed(workers))


def test_figures_of_summed_shards_are_those_of_all_rows():
    import keras
    import tensorflow as tf

    def create():
        return {
            "auc": keras.metrics.AUC(),
            "mae": keras.metrics.MeanAbsoluteError(),
            "rows": lambda labels, predictions: tf.equal(tf.round(predictions), tf.cast(labels, tf.float32)),
            "batch_mean": lambda labels, predictions: tf.reduce_mean(predictions),
        }

    found = over_shards(create, LABELS, OUTPUTS)
    auc = keras.metrics.AUC()
    auc.update_state(LABELS, OUTPUTS)
    assert found == pytest.approx(
        {
            "auc": float(auc.result()),
            "mae": float(np.abs(LABELS - OUTPUTS).mean()),
            "rows": float((np.round(OUTPUTS) == LABELS).mean()),
            "batch_mean": float(OUTPUTS.mean()),
        },
        abs=1e-6,
    )


def test_several_outputs_have_metrics_of_their_own():
    import keras

    metrics = {"probs": {"mae": keras.losses.mean_absolute_error}, "logits": {"itself": lambda labels, p: p}}
    judge = evaluator(metrics)
    judge.update(LABELS, {"probs": OUTPUTS, "logits": OUTPUTS})
    assert judge.result(judge.state()) == pytest.approx(
        {"probs/mae": np.abs(LABELS - OUTPUTS).mean(), "logits/itself": OUTPUTS.mean()}
    )
    with pytest.raises(ElasticError, match=r"no output 'probs'.*known: other"):
        evaluator(metrics).update(LABELS, {"other": OUTPUTS})


def test_metric_that_is_only_made_with_its_first_batch_has_a_result_without_one():
    import keras
    import tensorflow as tf

    def create():
        return {"f1": keras.metrics.F1Score(average=None)}

    worker, other = evaluator(create()), evaluator(create())
    labels, outputs = np.eye(2)[LABELS[:, 0]], np.hstack([1 - OUTPUTS, OUTPUTS])
    worker.update(labels, outputs)
    spec = tf.TensorSpec([None, 2])
    other.build((spec, spec), lambda features: features)
    found = other.result(worker.state())
    assert set(found) == {"f1/0", "f1/1"}
    assert found == worker.result(worker.state())


def test_result_leaves_what_is_being_accumulated_alone():
    judge = evaluator({"mean": lambda labels, predictions: predictions})
    judge.update(LABELS, OUTPUTS)
    before = judge.state()
    judge.result([("mean", [np.float64(10), np.float64(2)], "sum")])
    assert [a.tolist() for a in judge.state()[0][1]] == [a.tolist() for a in before[0][1]]
    judge.reset()
    assert np.isnan(judge.result(judge.state())["mean"])


def test_what_is_no_metric_is_refused():
    with pytest.raises(InputError, match="metric 'accuracy' is 'acc'"):
        evaluator({"accuracy": "acc"})
    with pytest.raises(InputError, match="swap its parameters"):
        evaluator({"accuracy": lambda predictions, labels: 0})


def test_states_of_other_metrics_are_refused():
    with pytest.raises(ElasticError, match="are not those of this model"):
        evaluator({"a": lambda labels, predictions: 0}).result([("b", [], "sum")])


def test_error_in_a_metric_is_the_users():
    def wrong(labels, predictions):
        raise ValueError("shapes")

    with pytest.raises(ElasticError, match=r"in eval_metrics_fn: ValueError: shapes"):
        evaluator({"wrong": wrong}).update(LABELS, OUTPUTS)


def test_batches_of_several_sizes_are_compiled_at_most_twice():
    judge = evaluator({"mean": lambda labels, predictions: predictions})
    for rows in (8, 3, 8, 1, 5):
        judge.update(LABELS[:rows], OUTPUTS[:rows])
    assert judge._update.experimental_get_tracing_count() <= 2

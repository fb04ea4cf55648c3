"""Metrics whose state adds up: workers report sums, and anyone turns their total into figures.

The user's `eval_metrics_fn` may give Keras metrics, whose variables are such sums already, and functions that
return a value per row, which become a sum and a count. No outputs of the model leave the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.model.network import split
from elastic_runtime.model.old_contract import labels_first
from elastic_runtime.model.user_code import user_code

States = list[tuple[str, list[np.ndarray], str]]


class _Sums(Protocol):
    """What is accumulated for one metric; `rule` says how the variables of two workers become one."""

    rule: str

    @property
    def variables(self) -> Sequence[Any]: ...

    def update(self, labels: Any, outputs: Any) -> None: ...

    def reset(self) -> None: ...

    def result(self) -> Any: ...


class _RowValues:
    """A function of (labels, predictions) that returns one value per row: their mean."""

    rule = "sum"

    def __init__(self, function: Any) -> None:
        self._function = function
        self.variables = [tf.Variable(0.0, dtype=tf.float64), tf.Variable(0.0, dtype=tf.float64)]

    def update(self, labels: Any, outputs: Any) -> None:
        values = tf.cast(self._function(labels, outputs), tf.float64)
        rows = tf.shape(tf.nest.flatten(outputs)[0])[0]
        if values.shape.rank == 0:  # the mean of the batch
            values = tf.fill([rows], values)
        total, count = self.variables
        total.assign_add(tf.reduce_sum(values))
        count.assign_add(tf.cast(tf.size(values), tf.float64))

    def reset(self) -> None:
        for variable in self.variables:
            variable.assign(0.0)

    def result(self) -> Any:
        total, count = (variable.numpy() for variable in self.variables)
        return total / count if count else float("nan")


class _KerasMetric:
    """A Keras metric; if its variables do not add up, its attribute `state_rule` says max or min."""

    def __init__(self, metric: keras.metrics.Metric) -> None:
        self._metric = metric
        self.rule = getattr(metric, "state_rule", "sum")

    @property
    def variables(self) -> Sequence[Any]:
        return list(self._metric.variables)

    def update(self, labels: Any, outputs: Any) -> None:
        self._metric.update_state(labels, outputs)

    def reset(self) -> None:
        self._metric.reset_state()

    def result(self) -> Any:
        return self._metric.result()


class Evaluator:
    """The metrics of a model: `update` with each batch, `state` to be summed, `result` of the sums."""

    def __init__(self, metrics: Mapping[str, Any]) -> None:
        self._metrics = {
            name: (_accumulator(name, metric), output) for name, metric, output in _each(metrics)
        }
        self._update = tf.function(self._traced_update, reduce_retracing=True)

    def build(self, element_spec: Any, predict: Callable[[Any], Any]) -> None:
        """Create what some metrics only create with their first batch; `result` may have to do without."""
        features, labels = split(element_spec)

        def update(features: Any, labels: Any) -> None:
            self._traced_update(labels, predict(features))

        with user_code("eval_metrics_fn"):
            tf.function(update).get_concrete_function(features, labels)
        self.reset()

    def update(self, labels: Any, outputs: Any) -> None:
        """Take in one batch."""
        with user_code("eval_metrics_fn"):
            self._update(labels, outputs)

    def state(self) -> States:
        """Each metric's name, variables and rule."""
        return [
            (name, [np.asarray(variable) for variable in sums.variables], sums.rule)
            for name, (sums, _) in self._metrics.items()
        ]

    def reset(self) -> None:
        """Begin anew."""
        for sums, _ in self._metrics.values():
            sums.reset()

    def result(self, states: Sequence[tuple[str, Sequence[np.ndarray], str]]) -> dict[str, float]:
        """The figures that these sums of states come to."""
        before = self.state()
        self._set(states)
        try:
            with user_code("eval_metrics_fn"):
                figures = {name: sums.result() for name, (sums, _) in self._metrics.items()}
        finally:
            self._set(before)
        return {name: number for metric, value in figures.items() for name, number in _figures(metric, value)}

    def _set(self, states: Sequence[tuple[str, Sequence[np.ndarray], str]]) -> None:
        if [name for name, *_ in states] != list(self._metrics):
            raise ElasticError(
                f"metrics {[name for name, *_ in states]} are not those of this model: {list(self._metrics)}",
                where="eval_metrics_fn",
                remedy="it must give the same metrics in every worker",
            )
        for name, values, _ in states:
            for variable, value in zip(self._metrics[name][0].variables, values, strict=True):
                variable.assign(tf.cast(value, variable.dtype))

    def _traced_update(self, labels: Any, outputs: Any) -> None:
        for sums, output in self._metrics.values():
            if output is None:
                sums.update(labels, outputs)
            else:
                its_own = isinstance(labels, Mapping) and output in labels
                sums.update(labels[output] if its_own else labels, _output(outputs, output))


def _each(metrics: Mapping[str, Any]) -> Iterator[tuple[str, Any, str | None]]:
    """Every metric: its name (`output/metric` if it is of one output), itself, and that output."""
    for name, metric in metrics.items():
        if isinstance(metric, Mapping):
            yield from ((f"{name}/{inner}", its, name) for inner, its in metric.items())
        else:
            yield name, metric, None


def _accumulator(name: str, metric: Any) -> _Sums:
    if isinstance(metric, keras.metrics.Metric):
        return _KerasMetric(metric)
    if callable(metric):
        return _RowValues(labels_first(metric, f"metric {name!r}"))
    raise InputError(
        f"metric {name!r} is {metric!r:.40}",
        where="eval_metrics_fn",
        remedy="give a function of (labels, predictions) or a keras.metrics.Metric",
    )


def _output(outputs: Any, name: str) -> Any:
    if isinstance(outputs, Mapping) and name in outputs:
        return outputs[name]
    known = (
        f"known: {', '.join(outputs)}"
        if isinstance(outputs, Mapping)
        else "the model has one, without a name"
    )
    raise InputError(f"the model has no output {name!r}", where="eval_metrics_fn", remedy=known)


def _figures(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """A metric's result as plain numbers: one, or several with their place in the name."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _figures(f"{name}/{key}", inner)
        return
    array = np.asarray(value, np.float64)
    if array.ndim == 0:
        yield name, float(array)
    else:
        yield from ((f"{name}/{place}", float(number)) for place, number in enumerate(array.ravel()))

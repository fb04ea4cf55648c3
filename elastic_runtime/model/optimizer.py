"""What others need of a Keras optimizer: its configuration as plain values, and its rate at a version."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def optimizer_config(optimizer: keras.optimizers.Optimizer) -> dict[str, object]:
    """Keras' own `get_config` with the class as `name`, and without the learning rate.

    The rate is not part of how an optimizer works: it is told with each update.
    """
    config: dict[str, object] = {
        key: value for key, value in optimizer.get_config().items() if key != "learning_rate"
    }
    return config | {"name": type(optimizer).__name__}


class LearningRate:
    """The rate of an optimizer at any version, be it a number that callbacks set, or a schedule."""

    def __init__(self, optimizer: keras.optimizers.Optimizer) -> None:
        self._optimizer = optimizer
        rate = optimizer._learning_rate
        self._schedule = rate if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule) else None
        if self._schedule is not None:
            step = tf.TensorSpec([], tf.int64)
            self._compiled: Any = tf.function(self._schedule, input_signature=[step], autograph=False)

    def at(self, version: int) -> float:
        """The rate with which the model of this version is updated."""
        if self._schedule is None:
            return float(self._optimizer.learning_rate)
        return float(self._compiled(tf.constant(version, tf.int64)))

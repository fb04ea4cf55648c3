"""A model too large for a small disk, otherwise like the tiny one."""

import keras
from tiny import FEATURES, eval_metrics_fn, feed, loss, optimizer

__all__ = ["custom_model", "eval_metrics_fn", "feed", "loss", "optimizer"]


def custom_model():
    inputs = keras.Input(shape=(FEATURES,), name="x")
    x = keras.layers.Dense(100_000, activation="relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2)(x), name="wide")

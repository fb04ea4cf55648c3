"""The tiny model with batch normalization: a model with variables that no gradient moves."""

import keras
from tiny import FEATURES, eval_metrics_fn, feed, loss

__all__ = ["custom_model", "eval_metrics_fn", "feed", "loss", "optimizer"]


def custom_model():
    inputs = keras.Input(shape=(FEATURES,), name="x")
    x = keras.layers.BatchNormalization()(keras.layers.Dense(16, activation="relu")(inputs))
    return keras.Model(inputs, keras.layers.Dense(2)(x), name="normalized")


def optimizer():
    return keras.optimizers.Adam(0.01)

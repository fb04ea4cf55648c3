"""The tiny model with a mistake: while there is a file `drift` beside that of the pace, each worker adds
something of its own to a weight in every step.
"""

import os
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from tiny import FEATURES, eval_metrics_fn, feed, loss, optimizer

__all__ = ["custom_model", "eval_metrics_fn", "feed", "loss", "optimizer"]


class Drifting(keras.layers.Dense):
    """Dense, but for its bias."""

    def call(self, inputs):
        own = tf.numpy_function(_own, [tf.shape(inputs)[0]], tf.float32)
        self.bias.assign_add(tf.fill([self.units], own))
        return super().call(inputs)


def custom_model():
    inputs = keras.Input(shape=(FEATURES,), name="x")
    return keras.Model(inputs, Drifting(2)(inputs), name="drifting")


def _own(_records):
    drifts = Path(os.environ["TINY_PACE"]).with_name("drift").exists()
    return np.float32(os.getpid() * 1e-6 if drifts else 0)

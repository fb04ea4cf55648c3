"""A model whose steps cost nothing, on records that come as slowly as the test wants.

While the file named by `TINY_PACE` holds a number, each record takes so many seconds; a test that has done
its damage empties it, and the rest of the job runs at full speed.
"""

import os
import time

import keras
import tensorflow as tf

FEATURES = 8


def custom_model():
    inputs = keras.Input(shape=(FEATURES,), name="x")
    return keras.Model(inputs, keras.layers.Dense(2)(inputs), name="tiny")


def feed(dataset, mode, metadata):
    pace = os.environ.get("TINY_PACE", "")
    if pace and mode == "training":
        dataset = dataset.map(lambda record: _delayed(record, pace))
    return dataset.map(lambda record: parse(record, mode))


def parse(record, mode):
    features = {"x": tf.io.FixedLenFeature([FEATURES], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return example["x"] if mode == "prediction" else (example["x"], example["y"])


def loss(labels, predictions):
    return keras.losses.sparse_categorical_crossentropy(labels, predictions, from_logits=True)


def optimizer():
    return keras.optimizers.SGD(0.01)


def eval_metrics_fn():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}


def _delayed(record, pace):
    def wait(content):
        with open(pace) as file:
            seconds = file.read().strip()
        time.sleep(float(seconds or 0))
        return content

    delayed = tf.numpy_function(wait, [record], tf.string)
    delayed.set_shape(record.shape)
    return delayed

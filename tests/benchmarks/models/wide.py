"""A model of 4 M weights and a short step: what its workers tell each other weighs as much as computing."""

import keras
import tensorflow as tf

VALUES = 32 * 32 * 3


def custom_model():
    layers = [keras.Input((VALUES,)), keras.layers.Dense(1024, activation="relu")]
    return keras.Sequential([*layers, keras.layers.Dense(1024, activation="relu"), keras.layers.Dense(10)])


def feed(dataset, mode, metadata):
    def parse(record):
        pixels = tf.ensure_shape(tf.io.decode_raw(record, tf.uint8), [VALUES])
        return tf.cast(pixels, tf.float32) / 255.0, tf.cast(pixels[0], tf.int64) % 10

    return dataset.map(parse)


def loss(labels, predictions):
    return keras.losses.sparse_categorical_crossentropy(labels, predictions, from_logits=True)


def optimizer():
    return keras.optimizers.SGD(0.01, momentum=0.9)

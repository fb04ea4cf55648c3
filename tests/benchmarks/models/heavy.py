"""A model whose step is bound by computing: few weights, but convolutions of a tenth of a second a step."""

import keras
import tensorflow as tf

SIDE, CHANNELS = 32, 3


def custom_model():
    inputs = keras.Input((SIDE, SIDE, CHANNELS))
    x = inputs
    for _ in range(3):
        x = keras.layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(x)))


def feed(dataset, mode, metadata):
    def parse(record):
        pixels = tf.reshape(tf.io.decode_raw(record, tf.uint8), [SIDE, SIDE, CHANNELS])
        return tf.cast(pixels, tf.float32) / 255.0, tf.cast(pixels[0, 0, 0], tf.int64) % 10

    return dataset.map(parse)


def loss(labels, predictions):
    return keras.losses.sparse_categorical_crossentropy(labels, predictions, from_logits=True)


def optimizer():
    return keras.optimizers.SGD(0.01)

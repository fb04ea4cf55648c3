"""A small model for the tests of worlds; batch norm, dropout and the optimizer as asked."""

import keras
import tensorflow as tf

_asked = {"optimizer": "sgd"}


def custom_model(optimizer="sgd", norm=False, dropout=False):
    _asked["optimizer"] = optimizer
    layers = [keras.Input((20,)), keras.layers.Dense(32, activation="relu")]
    layers += [keras.layers.BatchNormalization()] * norm + [keras.layers.Dropout(0.5)] * dropout
    return keras.Sequential([*layers, keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])


def loss(labels, predictions):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, predictions))


def optimizer():
    if _asked["optimizer"] == "adam":
        return keras.optimizers.Adam(0.01)
    return keras.optimizers.SGD(0.1, momentum=0.9)


def feed(dataset, mode, metadata):
    return dataset

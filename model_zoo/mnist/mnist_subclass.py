"""MNIST with a subclassed Keras model."""

import keras
from mnist.mnist_functional_api import eval_metrics_fn, feed, loss, optimizer

__all__ = ["CustomModel", "eval_metrics_fn", "feed", "loss", "optimizer"]


class CustomModel(keras.Model):
    def __init__(self):
        super().__init__(name="mnist")
        self.reshape = keras.layers.Reshape((28, 28, 1))
        self.conv1 = keras.layers.Conv2D(32, 3, activation="relu")
        self.conv2 = keras.layers.Conv2D(64, 3, activation="relu")
        self.normalization = keras.layers.BatchNormalization()
        self.pooling = keras.layers.MaxPooling2D(2)
        self.dropout = keras.layers.Dropout(0.25)
        self.flatten = keras.layers.Flatten()
        self.logits = keras.layers.Dense(10)

    def call(self, inputs, training=False):
        x = self.conv2(self.conv1(self.reshape(inputs)))
        x = self.pooling(self.normalization(x, training=training))
        return self.logits(self.flatten(self.dropout(x, training=training)))

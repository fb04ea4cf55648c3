"""CIFAR-10 with a subclassed Keras model."""

import keras
from cifar10.cifar10_functional_api import (
    PredictionOutputsProcessor,
    callbacks,
    eval_metrics_fn,
    feed,
    loss,
    optimizer,
)

__all__ = [
    "CustomModel",
    "PredictionOutputsProcessor",
    "callbacks",
    "eval_metrics_fn",
    "feed",
    "loss",
    "optimizer",
]


class CustomModel(keras.Model):
    def __init__(self):
        super().__init__(name="cifar10")
        self.blocks = [
            keras.Sequential(
                [
                    keras.layers.Conv2D(filters, 3, padding="same", use_bias=False),
                    keras.layers.BatchNormalization(),
                    keras.layers.Activation("relu"),
                    keras.layers.Conv2D(filters, 3, padding="same", use_bias=False),
                    keras.layers.BatchNormalization(),
                    keras.layers.Activation("relu"),
                    keras.layers.MaxPooling2D(2),
                    keras.layers.Dropout(dropout),
                ]
            )
            for filters, dropout in ((32, 0.2), (64, 0.3), (128, 0.4))
        ]
        self.average = keras.layers.GlobalAveragePooling2D()
        self.logits = keras.layers.Dense(10)

    def call(self, inputs, training=False):
        x = inputs
        for block in self.blocks:
            x = block(x, training=training)
        return self.logits(self.average(x))

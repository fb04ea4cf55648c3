"""CIFAR-10 with the functional API, a learning rate by the model's version, and predictions in files."""

import os

import keras
import numpy as np
import tensorflow as tf

from elastic_runtime.layers import BasePredictionOutputsProcessor, LearningRateScheduler, Mode


def custom_model():
    inputs = keras.Input(shape=(32, 32, 3), name="image")
    x = inputs
    for filters, dropout in ((32, 0.2), (64, 0.3), (128, 0.4)):
        for _ in range(2):
            x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
            x = keras.layers.BatchNormalization()(x)
            x = keras.layers.Activation("relu")(x)
        x = keras.layers.MaxPooling2D(2)(x)
        x = keras.layers.Dropout(dropout)(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, keras.layers.Dense(10)(x), name="cifar10")


def feed(dataset, mode, metadata):
    def parse(record):
        features = {"image": tf.io.FixedLenFeature([32, 32, 3], tf.float32)}
        if mode != Mode.PREDICTION:
            features["label"] = tf.io.FixedLenFeature([], tf.int64)
        example = tf.io.parse_single_example(record, features)
        image = example["image"] / 255.0
        return image if mode == Mode.PREDICTION else (image, example["label"])

    if mode == Mode.TRAINING:
        dataset = dataset.shuffle(1024)
    return dataset.map(parse)


def loss(labels, predictions):
    return keras.losses.sparse_categorical_crossentropy(labels, predictions, from_logits=True)


def optimizer(lr=0.1):
    return keras.optimizers.SGD(lr)


def callbacks():
    def schedule(version):
        if version < 5000:
            return 0.1
        return 0.01 if version < 15000 else 0.001

    return [LearningRateScheduler(schedule)]


def eval_metrics_fn():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}


class PredictionOutputsProcessor(BasePredictionOutputsProcessor):
    """Writes the likeliest class of each image, one file a worker, into $CIFAR10_PREDICTIONS."""

    def __init__(self):
        self.folder = os.environ.get("CIFAR10_PREDICTIONS", "predictions")
        os.makedirs(self.folder, exist_ok=True)

    def process(self, predictions, worker_id):
        classes = np.argmax(predictions, axis=1)
        with open(os.path.join(self.folder, f"worker-{worker_id}.txt"), "a") as file:
            file.writelines(f"{number}\n" for number in classes)

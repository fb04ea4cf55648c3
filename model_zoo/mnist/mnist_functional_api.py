"""MNIST with the functional API: the model of the tutorials."""

import keras
import tensorflow as tf

from elastic_runtime.layers import Mode


def custom_model():
    inputs = keras.Input(shape=(28, 28), name="image")
    x = keras.layers.Reshape((28, 28, 1))(inputs)
    x = keras.layers.Conv2D(32, 3, activation="relu")(x)
    x = keras.layers.Conv2D(64, 3, activation="relu")(x)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.MaxPooling2D(2)(x)
    x = keras.layers.Dropout(0.25)(x)
    x = keras.layers.Flatten()(x)
    return keras.Model(inputs, keras.layers.Dense(10)(x), name="mnist")


def feed(dataset, mode, metadata):
    def parse(record):
        features = {"image": tf.io.FixedLenFeature([28, 28], tf.float32)}
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


def optimizer(lr=0.01):
    return keras.optimizers.SGD(lr)


def eval_metrics_fn():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}

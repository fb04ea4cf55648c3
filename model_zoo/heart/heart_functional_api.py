"""Heart disease: numbers, words and ages become features by Keras' preprocessing layers, inside the model.

The records are `data/heart.csv` converted with `elasticdl data convert`: each column is a feature.
"""

import keras
import tensorflow as tf

from elastic_runtime.layers import Mode

NUMBERS = {  # mean and variance over the 303 patients
    "trestbps": (131.69, 308.5),
    "chol": (246.69, 2672.0),
    "thalach": (149.61, 521.5),
    "oldpeak": (1.04, 1.344),
}
CODES = {"sex": ["female", "male"], "thal": ["normal", "fixed defect", "reversable defect"]}
CODES |= {
    "cp": ["typical ang", "atypical ang", "non-anginal", "asymptomatic"],
    "restecg": ["normal", "left vent hypertrophy", "ST-T abnormal"],
    "slope": ["upsloping", "flat", "downsloping"],
}
AGES = [30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0]
COUNTS = ["fbs", "exang", "ca"]


def custom_model():
    numbers = {name: keras.Input((1,), name=name) for name in NUMBERS}
    words = {name: keras.Input((1,), name=name, dtype="string") for name in CODES}
    counts = {name: keras.Input((1,), name=name) for name in COUNTS}
    age = keras.Input((1,), name="age")

    columns = [
        keras.layers.Normalization(mean=mean, variance=variance)(numbers[name])
        for name, (mean, variance) in NUMBERS.items()
    ]
    for name, codes in CODES.items():
        ids = keras.layers.StringLookup(vocabulary=codes)(words[name])
        columns.append(keras.layers.Flatten()(keras.layers.Embedding(len(codes) + 1, 4)(ids)))
    columns.append(keras.layers.Discretization(AGES, output_mode="one_hot")(age))
    columns.extend(counts.values())

    x = keras.layers.Concatenate()(columns)
    for _ in range(2):
        x = keras.layers.Dense(16, activation="relu")(x)
    outputs = keras.layers.Dense(1, activation="sigmoid")(x)
    return keras.Model(numbers | words | counts | {"age": age}, outputs, name="heart")


def feed(dataset, mode, metadata):
    columns = {name: tf.io.FixedLenFeature([1], tf.int64) for name in [*NUMBERS, *COUNTS, "age", "target"]}
    columns |= {name: tf.io.FixedLenFeature([1], tf.string) for name in CODES}
    columns["oldpeak"] = tf.io.FixedLenFeature([1], tf.float32)

    def parse(record):
        features = tf.io.parse_single_example(record, columns)
        label = features.pop("target")
        features = {name: f if name in CODES else tf.cast(f, tf.float32) for name, f in features.items()}
        return features if mode == Mode.PREDICTION else (features, label)

    if mode == Mode.TRAINING:
        dataset = dataset.shuffle(1024)
    return dataset.map(parse)


def loss(labels, predictions):
    return keras.losses.binary_crossentropy(tf.cast(labels, tf.float32), predictions)


def optimizer(lr=0.01):
    return keras.optimizers.Adam(lr)


def eval_metrics_fn():
    return {"accuracy": keras.metrics.BinaryAccuracy(), "auc": keras.metrics.AUC()}

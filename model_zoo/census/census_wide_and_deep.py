"""Adult census, wide and deep: a weight for each word and pair of words, beside a network over embeddings.

The records are `data/adult_sample.csv`, or all of Adult, converted as in `pipelines/census.py`: each column
is a feature, with underscores in its name. Words and numbers become tensors within the model by Keras layers,
which have vocabularies and scales from here: nobody has to read the data before training begins.
"""

import keras
import tensorflow as tf

from elastic_runtime.layers import Mode

NUMBERS = {  # mean and variance over all 48 842 people
    "age": (38.64, 188.0),
    "education_num": (10.08, 6.61),
    "hours_per_week": (40.42, 153.5),
}
GAINS = {"capital_gain": (0.729, 5.98), "capital_loss": (0.351, 2.516)}  # the same, of log(1 + dollars)
WORDS = {  # `?`, which stands for unknown, has a place of its own: that of all other words
    "workclass": [
        *("Private", "Self-emp-not-inc", "Self-emp-inc", "Local-gov", "State-gov", "Federal-gov"),
        *("Without-pay", "Never-worked"),
    ],
    "education": [
        *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad"),
        *("Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"),
    ],
    "marital_status": [
        *("Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent"),
        *("Never-married", "Separated", "Divorced", "Widowed"),
    ],
    "occupation": [
        *("Prof-specialty", "Craft-repair", "Exec-managerial", "Adm-clerical", "Sales", "Other-service"),
        *("Machine-op-inspct", "Transport-moving", "Handlers-cleaners", "Farming-fishing", "Tech-support"),
        *("Protective-serv", "Priv-house-serv", "Armed-Forces"),
    ],
    "relationship": ["Husband", "Wife", "Own-child", "Other-relative", "Unmarried", "Not-in-family"],
    "race": ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"],
    "sex": ["Female", "Male"],
}
COUNTRIES = 128  # the 41 countries are hashed: no list to keep
AGES = [18.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0]
CROSSED = 1000
WORD_COLUMNS = [*WORDS, "native_country"]
NUMBER_COLUMNS = [*NUMBERS, *GAINS]


def custom_model(embedding=8, hidden=64):
    numbers = {name: keras.Input((1,), name=name) for name in NUMBER_COLUMNS}
    words = {name: keras.Input((1,), name=name, dtype="string") for name in WORD_COLUMNS}

    ids = {name: keras.layers.StringLookup(vocabulary=known)(words[name]) for name, known in WORDS.items()}
    ids["native_country"] = keras.layers.Hashing(COUNTRIES)(words["native_country"])
    sizes = {name: len(known) + 1 for name, known in WORDS.items()} | {"native_country": COUNTRIES}
    age = keras.layers.Discretization(AGES)(numbers["age"])

    deep = [_normal(*NUMBERS[name])(numbers[name]) for name in NUMBERS]
    deep += [_normal(*GAINS[name])(keras.ops.log1p(numbers[name])) for name in GAINS]
    deep += [keras.layers.Embedding(sizes[name], embedding)(each)[:, 0] for name, each in ids.items()]
    deep = keras.layers.Concatenate()(deep)
    for width in (hidden, hidden // 2):
        deep = keras.layers.Dense(width, activation="relu")(deep)

    pairs = ((words["education"], words["occupation"]), (age, words["education"]), (age, words["occupation"]))
    crossed = [keras.layers.HashedCrossing(CROSSED)(pair) for pair in pairs]
    wide = [keras.layers.Embedding(sizes[name], 1, "zeros")(each)[:, 0] for name, each in ids.items()]
    wide += [keras.layers.Embedding(CROSSED, 1, "zeros")(each)[:, 0] for each in crossed]

    logits = keras.layers.Add()([keras.layers.Dense(1)(deep), *wide])
    return keras.Model(numbers | words, keras.layers.Activation("sigmoid")(logits), name="census")


def _normal(mean, variance):
    return keras.layers.Normalization(mean=mean, variance=variance)


def feed(dataset, mode, metadata):
    columns = {name: tf.io.FixedLenFeature([1], tf.int64) for name in NUMBER_COLUMNS}
    columns |= {name: tf.io.FixedLenFeature([1], tf.string) for name in WORD_COLUMNS}
    if mode != Mode.PREDICTION:
        columns["income"] = tf.io.FixedLenFeature([1], tf.string)

    def parse(record):
        features = tf.io.parse_single_example(record, columns)
        features |= {name: tf.cast(features[name], tf.float32) for name in NUMBER_COLUMNS}
        if mode == Mode.PREDICTION:
            return features
        return features, tf.cast(features.pop("income") == ">50K", tf.int64)

    if mode == Mode.TRAINING:
        dataset = dataset.shuffle(1024)
    return dataset.map(parse)


def loss(labels, predictions):
    return keras.losses.binary_crossentropy(tf.cast(labels, tf.float32), predictions)


def optimizer(lr=0.003):
    return keras.optimizers.Adam(lr)


def eval_metrics_fn():
    return {"accuracy": keras.metrics.BinaryAccuracy(), "auc": keras.metrics.AUC()}

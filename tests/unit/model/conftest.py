"""Model files written for a test, and quiet TensorFlow."""

import os
import textwrap

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

REST = """
import keras
def custom_model(units=1):
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])
def feed(dataset, mode, metadata):
    return dataset
def loss(labels, predictions):
    return keras.losses.mean_squared_error(labels, predictions)
def optimizer(lr=0.01):
    return keras.optimizers.SGD(lr)
def eval_metrics_fn():
    return {}
"""


@pytest.fixture
def zoo(tmp_path):
    """Writes model files into a zoo of its own: `zoo("a/b.py", text)` gives the path."""

    def write(name, text="", *, rest=REST):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rest + textwrap.dedent(text))
        return path

    write.path = tmp_path
    return write

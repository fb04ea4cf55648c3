"""The tiny model, one of whose workers can be had to hang in the midst of a step: while the file `stuck`,
beside that of the pace, names its process.
"""

import os
import time
from pathlib import Path

import tensorflow as tf
import tiny
from tiny import custom_model, eval_metrics_fn, feed, optimizer

__all__ = ["custom_model", "eval_metrics_fn", "feed", "loss", "optimizer"]


def loss(labels, predictions):
    values = tiny.loss(labels, predictions)
    with tf.control_dependencies([tf.numpy_function(_hang, [tf.shape(labels)[0]], tf.int64)]):
        return tf.identity(values)


def _hang(records):
    names = Path(os.environ["TINY_PACE"]).with_name("stuck")
    while names.exists() and names.read_text() == str(os.getpid()):
        time.sleep(0.05)
    return int(records)

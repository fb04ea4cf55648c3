"""The tiny model with a data reader of its own, which makes its records up."""

import numpy as np
import tensorflow as tf
from tiny import custom_model, eval_metrics_fn, loss, optimizer

__all__ = ["custom_data_reader", "custom_model", "eval_metrics_fn", "feed", "loss", "optimizer"]


class Reader:
    def __init__(self, data_origin, records_per_task=None):
        self.data_origin = data_origin

    def create_shards(self):
        return {f"{self.data_origin}-{part}": (0, 300) for part in range(2)}

    def read_records(self, task):
        for number in range(task.shard.start, task.shard.end):
            x = np.random.default_rng(number).normal(size=8).astype(np.float32)
            yield tf.io.serialize_tensor(np.append(x, np.float32(x.sum() > 0))).numpy()

    @property
    def records_output_types(self):
        return tf.string


def custom_data_reader(data_origin, records_per_task=None, **kwargs):
    return Reader(data_origin, records_per_task)


def feed(dataset, mode, metadata):
    def parse(record):
        values = tf.ensure_shape(tf.io.parse_tensor(record, tf.float32), [9])
        return values[:8], tf.cast(values[8], tf.int64)

    return dataset.map(parse)

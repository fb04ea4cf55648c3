"""One local worker against `model.fit`: the same records, feed and model, in turns in one process.

Ours is the worker's feed (128 records a shard, as in the tutorial, three shards ahead) and the Local trainer;
theirs is Keras' own loop over one tf.data pipeline. Two models: the tutorial's CNN, which is compute-bound,
and a small dense one, which shows what the loop itself costs. Each side counts by its best turn: on a shared
machine the rest is noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from elastic_runtime.data.example import encode
from elastic_runtime.data.mnist import sample
from tests.benchmarks.rows import Row

ZOO = Path(__file__).parents[2] / "model_zoo"
BATCH, SHARD, AHEAD, TURNS = 64, 128, 3, 5


def run() -> list[Row]:
    """Records a second of both, each model."""
    import keras

    from elastic_runtime.model.module import load

    def dense() -> Any:
        layers = [keras.Input((28, 28)), keras.layers.Flatten(), keras.layers.Dense(128, activation="relu")]
        return keras.Sequential([*layers, keras.layers.Dense(10)])

    module = load(ZOO / "mnist" / "mnist_functional_api.py", zoo=ZOO)
    rows = []
    for name, create, count, bar in (
        ("CNN", module.create_model, 1920, ">= 0.9x"),
        ("dense", dense, 6000, ""),
    ):
        records = _records(count)
        loops = [_ours(module, create, records), _theirs(module, create, records)]
        seconds = [[_seconds(loop) for loop in loops] for _ in range(TURNS)]
        ours, theirs = (count / min(side) for side in zip(*seconds, strict=True))
        title = f"one local worker against model.fit, MNIST {name}"
        rows.append(Row(title, ours, theirs, "records/s", bar, "higher"))
    return rows


def _records(count: int) -> list[bytes]:
    with np.load(sample()) as arrays:
        images, labels = arrays["x_train"][:count].astype(np.float32), arrays["y_train"][:count]
    return [
        encode({"image": image.ravel(), "label": int(label)})
        for image, label in zip(images, labels, strict=True)
    ]


def _ours(module: Any, create: Callable[[], Any], records: list[bytes]) -> Callable[[], None]:
    from elastic_runtime.worker.feed import ShardFeed
    from elastic_runtime.worker.trainers.local import LocalTrainer

    trainer = LocalTrainer(replace(module, create_model=create))
    feed = ShardFeed(feed=module.feed, mode="training", metadata=None, batch_size=BATCH)
    trainer.build(feed.element_spec)
    shards = [records[at : at + SHARD] for at in range(0, len(records), SHARD)]
    numbers = iter(range(10**9))

    def loop() -> None:
        put: list[int] = []
        for shard in shards:
            put.append(next(numbers))
            feed.put(put[-1], shard)
            if len(put) > AHEAD:
                _train(put.pop(0))
        for number in put:
            _train(number)

    def _train(number: int) -> None:
        for batch in feed.batches(number):
            trainer.train_batch(batch)

    loop()
    return loop


def _theirs(module: Any, create: Callable[[], Any], records: list[bytes]) -> Callable[[], None]:
    import tensorflow as tf

    model = create()
    model.compile(module.create_optimizer(), module.loss)
    dataset = module.feed(tf.data.Dataset.from_tensor_slices(records), "training", None)
    dataset = dataset.batch(BATCH).prefetch(tf.data.AUTOTUNE)

    def loop() -> None:
        model.fit(dataset, epochs=1, verbose=0, shuffle=False)

    loop()
    return loop


def _seconds(loop: Callable[[], None]) -> float:
    began = time.perf_counter()
    loop()
    return time.perf_counter() - began

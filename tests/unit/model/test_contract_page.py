"""The example of the contract's page is a model that trains."""

import re
from pathlib import Path

import numpy as np
import pytest

from elastic_runtime.data import mnist
from elastic_runtime.data.example import encode

pytestmark = pytest.mark.tensorflow

PAGE = Path(__file__).parents[3] / "docs" / "model_contract.md"


def test_the_example_on_the_page_learns_digits(zoo):
    import keras

    from elastic_runtime.model.module import load
    from elastic_runtime.worker.feed import ShardFeed
    from elastic_runtime.worker.metrics import Evaluator
    from elastic_runtime.worker.trainers.local import LocalTrainer

    example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    keras.utils.set_random_seed(1)
    module = load(zoo("digits/digits.py", rest=example), "custom_model", zoo=zoo.path)
    with np.load(mnist.sample()) as arrays:
        x, y = arrays["x_train"][::4].astype(np.float32), arrays["y_train"][::4]
    records = [encode({"image": a.ravel(), "label": int(b)}) for a, b in zip(x, y, strict=True)]
    feed = ShardFeed(feed=module.feed, mode="training", metadata=None, batch_size=64)
    trainer, judge = LocalTrainer(module), Evaluator(module.create_metrics())
    trainer.build(feed.element_spec)
    for number in range(3):
        feed.put(number, records)
        judge.reset()
        for batch in feed.batches(number):
            judge.update(batch[1], trainer.predict_batch(batch[0]))
            trainer.train_batch(batch)
    feed.close()
    assert judge.result(judge.state())["accuracy"] > 0.7

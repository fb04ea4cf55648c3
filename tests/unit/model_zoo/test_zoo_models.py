"""Every model of the zoo trains on real data, through the same feed and trainer as in a job."""

import csv
import os
import runpy
from pathlib import Path

import numpy as np
import pytest

from elastic_runtime.data import mnist
from elastic_runtime.data.convert import ConvertRequest, convert
from elastic_runtime.data.example import encode
from elastic_runtime.data.readers import open_reader
from pipelines.census import SCHEMA

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytestmark = pytest.mark.tensorflow

ZOO = Path(__file__).parents[3] / "model_zoo"
CENSUS = ZOO / "census" / "data" / "adult_sample.csv"


def images(path, count):
    """Records as `elasticdl data convert` writes them."""
    with np.load(path) as arrays:
        picked = np.random.default_rng(0).permutation(len(arrays["y_train"]))[:count]
        x, y = arrays["x_train"][picked].astype(np.float32), arrays["y_train"][picked].astype(np.int64)
    return [
        encode({"image": image.ravel(), "label": label}) for image, label in zip(x, y[:, None], strict=True)
    ]


def rows(source, folder, schema=""):
    """A table's rows as records."""
    convert(ConvertRequest(source=str(source), output=str(folder), kind="csv", schema=schema))
    reader = open_reader(str(folder), {})
    return [record for s in reader.sources() for record in reader.read(s.name, s.start, s.start + s.records)]


@pytest.fixture(scope="session")
def heart(tmp_path_factory):
    return rows(ZOO / "heart" / "data" / "heart.csv", tmp_path_factory.mktemp("heart") / "out")


@pytest.fixture(scope="session")
def census(tmp_path_factory):
    return rows(CENSUS, tmp_path_factory.mktemp("census") / "out", SCHEMA)


@pytest.fixture
def records_of(heart, census):
    return {
        "mnist": lambda: images(mnist.sample(), 640),
        "cifar10": lambda: images(ZOO / "cifar10" / "data" / "cifar10_sample.npz", 400),
        "heart": lambda: heart,
        "census": lambda: census[:1600],
    }


@pytest.mark.parametrize(
    ("file", "data", "epochs"),
    [
        ("mnist/mnist_functional_api", "mnist", 1),
        ("mnist/mnist_subclass", "mnist", 1),
        ("mnist_functional_api/mnist_functional_api", "mnist", 0),
        ("mnist_subclass/mnist_subclass", "mnist", 0),
        ("cifar10/cifar10_functional_api", "cifar10", 2),
        ("cifar10/cifar10_subclass", "cifar10", 1),
        ("heart/heart_functional_api", "heart", 8),
        ("census/census_wide_and_deep", "census", 1),
    ],
)
def test_loss_falls_and_metrics_have_values(records_of, file, data, epochs):
    import keras

    from elastic_runtime.model.callbacks import Callbacks
    from elastic_runtime.model.module import load
    from elastic_runtime.worker.feed import ShardFeed
    from elastic_runtime.worker.metrics import Evaluator
    from elastic_runtime.worker.trainers.local import LocalTrainer

    keras.utils.set_random_seed(1)
    module = load(ZOO / f"{file}.py", zoo=ZOO)
    feed = ShardFeed(feed=module.feed, mode="training", metadata=None, batch_size=32)
    trainer = LocalTrainer(module)
    trainer.build(feed.element_spec)
    callbacks = Callbacks(module.create_callbacks(), model=trainer.model, params={})
    losses, judge = [], Evaluator(module.create_metrics())
    records = records_of[data]()
    for number in range(epochs):
        feed.put(number, records)
        for features, labels in feed.batches(number):
            callbacks.batch_begin(trainer.version)
            losses.append(trainer.train_batch((features, labels)).loss)
            judge.update(labels, trainer.predict_batch(features))
    feed.close()
    if losses:
        assert np.mean(losses[-4:]) < 0.9 * np.mean(losses[:2])
        assert 0 < judge.result(judge.state())["accuracy"] <= 1


def test_predictions_of_cifar10_are_written_by_worker(tmp_path, monkeypatch):
    from elastic_runtime.model.module import load

    monkeypatch.setenv("CIFAR10_PREDICTIONS", str(tmp_path / "out"))
    module = load(ZOO / "cifar10" / "cifar10_functional_api.py", zoo=ZOO)
    processor = module.create_prediction_outputs_processor()
    for outputs in ([[0.1, 0.9], [0.8, 0.2]], [[0.0, 1.0]]):
        processor.process(np.array(outputs), 3)
    assert (tmp_path / "out" / "worker-3.txt").read_text() == "1\n0\n1\n"


def test_the_model_of_the_census_knows_the_words_and_the_scale_of_its_data_without_reading_them():
    module = runpy.run_path(str(ZOO / "census" / "census_wide_and_deep.py"))
    with CENSUS.open() as file:
        people = list(csv.DictReader(file))
    columns = {name.replace("-", "_"): [person[name] for person in people] for name in people[0]}
    for name, known in module["WORDS"].items():
        assert len(set(known)) == len(known)
        assert set(columns[name]) - {"?"} <= set(known), name
    for name, (mean, variance) in module["NUMBERS"].items():
        numbers = np.array(columns[name], float)
        assert numbers.mean() == pytest.approx(mean, rel=0.02)
        assert numbers.var() == pytest.approx(variance, rel=0.1)
    for name, (mean, variance) in module["GAINS"].items():
        numbers = np.log1p(np.array(columns[name], float))
        assert numbers.mean() == pytest.approx(mean, rel=0.15)
        assert numbers.var() == pytest.approx(variance, rel=0.15)


def test_models_import_nothing_of_the_runtime_but_its_layers():
    for path in ZOO.rglob("*.py"):
        imports = [line for line in path.read_text().splitlines() if "elastic_runtime" in line]
        assert all(line.startswith("from elastic_runtime.layers import") for line in imports), path

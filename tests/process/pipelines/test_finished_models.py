"""Evaluation and prediction with models of other kinds, and how they refuse what cannot be."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elastic_runtime.data.example import decode, encode
from elastic_runtime.data.inspect import head
from elastic_runtime.data.recordio import Writer
from elastic_runtime.errors import ElasticError
from elastic_runtime.steps import Folder
from tests.process.job.harness import write_data

pytestmark = pytest.mark.tensorflow

MODULE = """
import keras
import tensorflow as tf

class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, x):
        return self.dense(x)

def custom_model():
    return Model()

def feed(dataset, mode, metadata):
    features = {"x": tf.io.FixedLenFeature([8], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    def parse(record):
        example = tf.io.parse_single_example(record, features)
        return example["x"] if mode == "prediction" else (example["x"], example["y"])
    dataset = dataset.map(parse)
    return dataset.take(5) if FILTER and mode == "prediction" else dataset

FILTER = False

def loss(labels, predictions):
    labels = tf.cast(labels[:, None], tf.float32)
    return keras.losses.binary_crossentropy(labels, predictions, from_logits=True)

def optimizer():
    return keras.optimizers.SGD(0.1)

def eval_metrics_fn():
    return {"auc": keras.metrics.AUC(from_logits=True)}
"""


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "binary.py").write_text(MODULE)
    (folder / "filters.py").write_text(MODULE.replace("FILTER = False", "FILTER = True"))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(str(write_data(tmp_path_factory.mktemp("data") / "test", records=300)))


@pytest.fixture(scope="module")
def model(zoo: Path, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A classifier of two classes that answers almost right, exported as the training step does."""
    import tensorflow as tf

    from elastic_runtime.model.export import export
    from elastic_runtime.model.module import load

    made = load(zoo / "binary.py").create_model()
    made(np.zeros((1, 8), np.float32))
    made.set_weights([np.array([[1.0]] * 7 + [[0.0]], np.float32), np.zeros(1, np.float32)])
    place = tmp_path_factory.mktemp("model")
    export(made, place, tf.TensorSpec([None, 8], tf.float32))
    known = {"model_zoo": str(zoo), "model_def": "binary.custom_model", "minibatch_size": "16"}
    return Folder(str(place), known)


def evaluated(tmp_path: Path, **given: Any) -> dict[str, Folder]:
    from elastic_runtime.steps.evaluate import evaluate

    outputs = {name: Folder(str(tmp_path / name)) for name in ("metrics", "classification", "report")}
    evaluate(**outputs, **given)
    return outputs


def test_a_subclassed_model_of_two_classes_is_evaluated(model: Folder, data: Folder, tmp_path: Path) -> None:
    outputs = evaluated(tmp_path, model=model, dataset=data, class_names="no, yes")
    figures = outputs["metrics"].metadata
    assert figures["records"] == 300
    assert 0.9 < figures["auc"] < 1
    scores = outputs["classification"].metadata
    assert [entry["displayName"] for entry in scores["confusionMatrix"]["annotationSpecs"]] == ["no", "yes"]
    recall, false = (
        [point[key] for point in scores["confidenceMetrics"]] for key in ("recall", "falsePositiveRate")
    )
    assert float(np.trapezoid(recall, false)) == pytest.approx(figures["auc"], abs=0.01)
    assert "yes" in Path(outputs["report"].path).read_text()


def test_what_is_given_goes_before_what_the_model_says(model: Folder, data: Folder, tmp_path: Path) -> None:
    with pytest.raises(ElasticError, match="no absent in"):
        evaluated(tmp_path, model=model, dataset=data, eval_metrics_fn="absent")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"split": "test"}, "test: there is no such file or folder"),
        ({"model": Folder("/nowhere", {"model_def": "binary.custom_model"})}, "binary.custom_model"),
        ({"model": Folder("/nowhere")}, "nothing says what module the model is from"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    model: Folder, data: Folder, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(ElasticError, match=said):
        evaluated(tmp_path, **({"model": model, "dataset": data} | change))


def test_wrong_names_of_classes_are_told_before_all_the_work_is_done(
    model: Folder, data: Folder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(ElasticError, match="1 names for 2 classes"):
        evaluated(tmp_path, model=model, dataset=data, class_names="one")
    assert not [message for message in caplog.messages if "records in" in message]


def predicted(tmp_path: Path, **given: Any) -> tuple[Folder, int]:
    from elastic_runtime.steps.predict import predict

    result = Folder(str(tmp_path / "predictions"))
    return result, predict(predictions=result, **given)


def test_predictions_come_in_files_of_the_size_asked_for_and_twice_the_same(
    model: Folder, data: Folder, tmp_path: Path
) -> None:
    for _ in range(2):
        result, records = predicted(tmp_path, model=model, dataset=data, keep="x,y", records_per_file=128)
        assert records == 300
        assert [path.name for path in sorted(Path(result.path).iterdir())] == [
            f"data-0000{n}" for n in range(3)
        ]
    for record in map(decode, head(result.path, 300)):
        assert record["prediction"][0] == pytest.approx(sum(record["x"][:7]), abs=1e-4)


def test_what_else_lies_where_predictions_go_stays(model: Folder, data: Folder, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    result, _ = predicted(tmp_path, model=model, dataset=data, output=str(tmp_path / "mine"))
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["data-00000", "notes"]
    assert result.uri == str(tmp_path / "mine")


def test_a_feature_that_is_not_there_cannot_be_kept(model: Folder, data: Folder, tmp_path: Path) -> None:
    with pytest.raises(ElasticError, match=r"no feature 'z'.*known: x, y"):
        predicted(tmp_path, model=model, dataset=data, keep="z")


def test_a_feed_that_leaves_records_out_cannot_be_matched(
    model: Folder, data: Folder, tmp_path: Path
) -> None:
    with pytest.raises(ElasticError, match=r"feed made 5 of \d+ records"):
        predicted(tmp_path, model=model, dataset=data, model_def="filters.custom_model")


def test_a_model_that_does_not_fit_the_data_says_so(model: Folder, tmp_path: Path) -> None:
    with Writer(str(tmp_path / "data-00000")) as writer:
        writer.write(encode({"x": np.zeros(3, np.float32), "y": 1}))
    with pytest.raises(ElasticError, match="x"):
        evaluated(tmp_path, model=model, dataset=Folder(str(tmp_path / "data-00000")))

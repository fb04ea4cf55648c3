"""The pipelines that come with this, each run by its own command on this machine, with real data."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elastic_runtime.data.example import decode
from elastic_runtime.data.readers import RecordIOReader

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(900)]

PIPELINES = Path(__file__).parents[3] / "pipelines"


class Outputs:
    """What one run of a pipeline has left, and what it has said."""

    def __init__(self, folder: Path, pipeline: str, *words: str) -> None:
        command = [sys.executable, str(PIPELINES / f"{pipeline}.py"), "--engine=local", *words]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=840, check=False)
        assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-5000:]
        self.said = ended.stdout
        [self.folder] = (folder / "build" / "outputs").iterdir()
        self._runs = folder / "runs"

    def metadata(self, task: str, artifact: str) -> dict[str, Any]:
        """What KFP is told of an output."""
        found: dict[str, Any] = self._told(task)["artifacts"][artifact]["artifacts"][0]["metadata"]
        return found

    def value(self, task: str, name: str) -> Any:
        return self._told(task)["parameterValues"][name]

    def jobs(self) -> list[str]:
        """The names of all trainings."""
        return [folder.name for folder in self._runs.iterdir()]

    def losses(self) -> list[float]:
        """Those of each step of the only training, as each of its workers tells it, in the order of steps."""
        [job] = self.jobs()
        logs = [log.read_text() for log in (self._runs / job / "logs").glob("*-worker-*.log")]
        told = [line for log in logs for line in re.findall(r"Loss = (\S+), steps = (\d+)", log)]
        return [float(loss) for loss, _ in sorted(told, key=lambda line: int(line[1]))]

    def _told(self, task: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.folder / task / "executor_output.json").read_text())
        return told


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    return Outputs(tmp_path_factory.mktemp("census"), "census")


@pytest.fixture(scope="module")
def cifar10(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    words = ("--param", "num_epochs=4", "--set=train.log_loss_steps=1")
    return Outputs(tmp_path_factory.mktemp("cifar10"), "cifar10_allreduce", *words)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    small = ("--param", "num_workers=1", "--param", "num_epochs=1")
    return Outputs(tmp_path_factory.mktemp("sweep"), "sweep", *small)


def test_a_table_becomes_the_records_that_its_schema_asks_for(census: Outputs) -> None:
    told = census.metadata("convert", "dataset")
    assert told["records"] == 5000 == sum(told["splits"].values())
    reader = RecordIOReader(str(census.folder / "convert" / "dataset" / "test"))
    [source] = reader.sources()
    person = decode(reader.read(source.name, 0, 1)[0])
    assert {"education_num", "marital_status", "income"} <= {*person}
    assert "fnlwgt" not in person
    assert person["income"][0] in {b"<=50K", b">50K"}


def test_wide_and_deep_tells_people_apart_whom_it_has_not_seen(census: Outputs) -> None:
    found = census.metadata("evaluate", "metrics")
    rows = [row["row"] for row in census.metadata("evaluate", "classification")["confusionMatrix"]["rows"]]
    matrix = np.array(rows)
    assert matrix.sum() == found["records"] == census.metadata("convert", "dataset")["splits"]["test"]
    majority = matrix.sum(axis=1).max() / matrix.sum()
    assert 0.7 < majority < 0.8
    assert found["accuracy"] > majority + 0.03
    assert found["auc"] > 0.85
    assert matrix.trace() / matrix.sum() == pytest.approx(found["accuracy"], abs=1e-6)


def test_training_on_parameter_servers_reports_the_metric_that_the_model_names_first(census: Outputs) -> None:
    told = census.metadata("train", "metrics")
    assert census.value("train", "best_metric") == told["accuracy"]
    assert told["accuracy"] == pytest.approx(census.metadata("evaluate", "metrics")["accuracy"], abs=0.002)
    assert told["records"] == 3 * census.metadata("convert", "dataset")["splits"]["train"]
    pods = (census.folder / "train" / "pods").read_text()
    assert all(f"| {pod} |" in pods for pod in ("ps-0", "ps-1", "worker-0"))


def test_p4_predictions_on_the_census_stand_beside_the_truth(census: Outputs) -> None:
    reader = RecordIOReader(str(census.folder / "predict" / "predictions"))
    [source] = reader.sources()
    records = [decode(record) for record in reader.read(source.name, 0, source.records)]
    right = [(float(record["prediction"][0]) > 0.5) == (record["income"][0] == b">50K") for record in records]
    assert (
        len(right) == census.metadata("evaluate", "metrics")["records"] == census.value("predict", "Output")
    )
    assert [int(record["index"][0]) for record in records] == list(range(len(records)))
    assert np.mean(right) == pytest.approx(census.metadata("evaluate", "metrics")["accuracy"], abs=0.002)


def test_cifar10_is_trained_by_workers_alone(cifar10: Outputs) -> None:
    told = cifar10.metadata("train", "metrics")
    assert told["records"] == 4 * 400
    assert told["most_workers"] == 2
    pods = (cifar10.folder / "train" / "pods").read_text()
    assert "| worker-1 |" in pods
    assert "| ps-0 |" not in pods
    assert (cifar10.folder / "train" / "model" / "model.keras").is_file()


def test_cifar10_is_learned(cifar10: Outputs) -> None:
    losses = cifar10.losses()
    assert len(losses) >= 4 * 400 / 8 / 2, "too few to tell"  # each is of a minibatch of 8
    assert np.nanmedian(losses[len(losses) // 2 :]) < math.log(10), "no better than guessing"


def test_cifar10_is_judged_by_class(cifar10: Outputs) -> None:
    found = cifar10.metadata("evaluate", "metrics")
    matrix = cifar10.metadata("evaluate", "classification")["confusionMatrix"]
    assert [each["displayName"] for each in matrix["annotationSpecs"]][::9] == ["airplane", "truck"]
    counts = np.array([row["row"] for row in matrix["rows"]])
    assert counts.sum(axis=1).tolist() == [10] * 10
    assert counts.trace() / 100 == pytest.approx(found["accuracy"], abs=1e-6)


def test_the_best_of_the_sweep_is_named(sweep: Outputs) -> None:
    trainings = ("train", "train-2", "train-3")
    told = [sweep.value(task, "best_metric") for task in trainings]
    table = (sweep.folder / "compare" / "table").read_text()
    figures = dict(re.findall(r"\| (small|medium|large) \| ([\d.]+) \|", table))
    assert sorted(figures.values()) == sorted(f"{accuracy:.4f}" for accuracy in told)
    assert figures[sweep.value("compare", "Output")] == max(figures.values())
    assert all(sweep.metadata(task, "metrics")["auc"] > 0.75 for task in trainings)


def test_nothing_is_left_of_any_training_of_the_sweep(sweep: Outputs) -> None:
    assert [sweep.value(f"clean-up{n}", "Output") for n in ("", "-2", "-3")] == [[], [], []]
    assert sorted(job.partition("-")[0] for job in sweep.jobs()) == ["large", "medium", "small"]

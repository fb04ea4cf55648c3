"""P4 and P5: every step under kfp.local without Docker, and what each leaves for people and for the next."""

from __future__ import annotations

import json
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

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pipeline has left."""
    folder = tmp_path_factory.mktemp("whole")
    command = [sys.executable, str(Path(__file__).with_name("whole.py")), str(ROOT / "model_zoo")]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    [found] = (folder / "outputs").iterdir()
    return found


def metadata(outputs: Path, task: str, artifact: str) -> dict[str, Any]:
    """What KFP is told of an output."""
    told = json.loads((outputs / task / "executor_output.json").read_text())
    found: dict[str, Any] = told["artifacts"][artifact]["artifacts"][0]["metadata"]
    return found


def value(outputs: Path, task: str, name: str) -> Any:
    told = json.loads((outputs / task / "executor_output.json").read_text())
    return told["parameterValues"][name]


def test_p4_the_dataset_says_how_many_records_it_has_and_shows_some(outputs: Path) -> None:
    told = metadata(outputs, "convert", "dataset")
    assert told == {"format": "RecordIO", "records": 7000, "splits": {"train": 6000, "test": 1000}}
    assert len(list((outputs / "convert" / "dataset" / "train").iterdir())) == 2
    page = (outputs / "convert" / "samples").read_text()
    assert "| train | 6 000 | 2 |" in page
    assert "label 5" in page
    assert page.count("█") > 50


def test_p4_training_gives_model_metrics_report_pods_and_values(outputs: Path) -> None:
    folder, told = outputs / "train", metadata(outputs, "train", "metrics")
    assert (folder / "model" / "model.keras").is_file()
    assert (folder / "model" / "saved_model" / "saved_model.pb").is_file()
    assert told["steps"] == value(outputs, "train", "steps") >= 30
    assert told["accuracy"] == value(outputs, "train", "best_metric") > 0.2
    assert told["most_workers"] == 2
    assert {"worker-0", "worker-1", "ps-0"} <= set(
        re.findall(r"^\| (\S+) \|", (folder / "pods").read_text(), re.M)
    )


def test_p4_evaluation_finds_what_the_job_found(outputs: Path) -> None:
    told = metadata(outputs, "evaluate", "metrics")
    assert told["accuracy"] == pytest.approx(metadata(outputs, "train", "metrics")["accuracy"], abs=0.002)
    assert told["records"] == 1000
    scores = metadata(outputs, "evaluate", "classification")
    matrix = np.array([row["row"] for row in scores["confusionMatrix"]["rows"]])
    assert matrix.shape == (10, 10)
    assert matrix.sum() == 1000
    assert matrix.trace() / 1000 == pytest.approx(told["accuracy"], abs=1e-6)
    curve = scores["confidenceMetrics"]
    assert 10 < len(curve) <= 100
    assert all(0 <= point[name] <= 1 for point in curve for name in point)


def test_p4_predictions_are_records_that_name_what_they_are_for(outputs: Path) -> None:
    reader = RecordIOReader(str(outputs / "predict" / "predictions"))
    [source] = reader.sources()
    records = [decode(record) for record in reader.read(source.name, 0, source.records)]
    assert len(records) == value(outputs, "predict", "Output") == 1000
    assert [int(record["index"][0]) for record in records] == list(range(1000))
    right = np.mean([np.argmax(record["prediction"]) == record["label"][0] for record in records])
    assert right == pytest.approx(metadata(outputs, "evaluate", "metrics")["accuracy"], abs=0.002)


@pytest.mark.parametrize("task", ["train", "evaluate"])
def test_p5_a_report_has_no_script_and_needs_nothing_from_elsewhere(outputs: Path, task: str) -> None:
    page = (outputs / task / "report").read_text()
    assert "<svg" in page
    assert re.findall(r"<script|javascript:|\son\w+=|data:|https?://|@import|url\(|<link|<img", page) == []


def test_the_exit_handler_finds_nothing_left(outputs: Path) -> None:
    assert value(outputs, "clean-up", "Output") == []
